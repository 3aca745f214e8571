// How turns and answers are drawn. The page gives the actions of their buttons.

import { button, counted, foreign, iconButton, make, one, shown, tell } from "./elements.js";
import { drawPassages } from "./passages.js";
import { current, isLast, talk } from "./talk.js";

export const actions = {};
export const models = [];
export const model = (id) => models.find((other) => other.id === id);

export function drawTurn(turn) {
  const at = talk.turns.indexOf(turn) + 1;
  const edit = iconButton("edit", () => actions.edit(turn), `Edit turn ${at}`, "Edit the question", "edit");
  const question = make("div", "question", edit, foreign("p", "utterance", turn.words));
  const sides = talk.systems.map((system, place) => drawEmptySide(system, place, at));
  turn.element = make("article", "turn", make("h2", "sr", `Turn ${at}`), question, make("div", "sides", ...sides));
  one("#turns").append(turn.element);
  one("#conversation").classList.toggle("two", talk.systems.length > 1);
}

function drawEmptySide(system, place, at) {
  const side = make("div", `side s${place}`);
  side.role = "group";
  side.setAttribute("aria-label", `${system}, turn ${at}`);
  return side;
}

const sideOf = (turn, place) => one(".sides", turn.element).children[place];

// Draw the version of an answer that is shown.
export function drawSide(turn, place) {
  const side = turn.sides[place];
  const answer = current(side);
  const element = sideOf(turn, place);
  const name = talk.systems.length > 1 ? make("h3", "swatch", shown(answer.system)) : null;
  element.answer = answer;
  answer.element = element;
  element.replaceChildren(...[name, ...parts(turn, place, answer)].filter(Boolean));
}

function parts(turn, place, answer) {
  if (answer.state === "waiting") return [drawWritten(answer), drawActivity(answer)];
  if (answer.state === "done") return drawDone(turn, place, answer);
  const note = make("p", answer.problem ? "problem" : "none", shown(answer.problem ?? "Stopped."));
  note.dir = "auto";
  return [drawWritten(answer), note, drawFoot(turn, place, answer)];
}

// An answer that is being written.

function drawWritten(answer) {
  if (!answer.text) return null;
  const box = foreign("div", "answer writing", "");
  box.innerHTML = answer.html; // Markdown that the server has drawn: it lets no HTML of a model through
  box.append(make("p", "rest", restOf(answer)));
  prepareMarkup(box, true);
  return box;
}

// The block under way.
const restOf = ({ text, until }) => shown(text.slice(until).replace(/^\n+/, ""));

// Links open elsewhere. The citations of an unfinished answer have no passages yet.
function prepareMarkup(box, isUnfinished) {
  for (const link of box.querySelectorAll("a")) Object.assign(link, { target: "_blank", rel: "noreferrer" });
  for (const cite of box.querySelectorAll(".cite")) cite.disabled = isUnfinished;
}

function drawActivity(answer) {
  const passed = () => `${Math.round((Date.now() - answer.since) / 1000)} s`;
  const clock = make("span", "clock");
  const timer = setInterval(() => {
    if (answer.state !== "waiting" || !clock.isConnected) clearInterval(timer);
    clock.textContent = passed();
  }, 1000);
  return make("p", "activity", make("span", "stage", shown(answer.step)), " ", clock);
}

export function showStep(answer, step) {
  if (answer.step !== step) tell(`${answer.system}: ${step}`);
  answer.step = step;
  const stage = one(".stage", answer.element);
  if (stage) stage.textContent = shown(step);
}

export function showText(answer) {
  const rest = one(".rest", answer.element);
  if (rest) rest.textContent = restOf(answer);
  else one(".activity", answer.element)?.before(drawWritten(answer) ?? "");
}

// Blocks that are finished are drawn once; what follows them stays text.
export function showBlock(answer, html) {
  const rest = one(".rest", answer.element);
  if (!rest) return;
  rest.insertAdjacentHTML("beforebegin", html);
  prepareMarkup(rest.parentElement, true);
  rest.textContent = restOf(answer);
}

export function showNothing(answer) {
  one(".answer", answer.element)?.remove();
}

// A complete answer.

function drawDone(turn, place, answer) {
  const { facts, citations } = answer;
  return [
    drawResponse(answer), drawChange(facts), ...drawDoubts(facts),
    citations.length ? drawPassages(citations, facts.html.includes('class="cite"')) : null,
    drawSteps(answer), drawFoot(turn, place, answer),
  ];
}

function drawResponse(answer) {
  const { facts } = answer;
  if (!facts.response) return make("p", "none", noResponse(answer));
  const drawn = one(".writing", answer.element);
  const box = drawn && facts.html.startsWith(answer.html) ? drawn : foreign("div", "answer", "");
  if (box === drawn) {
    box.className = "answer";
    one(".rest", box).remove();
    box.insertAdjacentHTML("beforeend", facts.html.slice(answer.html.length));
  } else {
    box.innerHTML = facts.html;
  }
  prepareMarkup(box, false);
  return box;
}

export function noResponse({ system, citations }) {
  if (!citations.length) return "No passage was found.";
  const writes = model(system)?.writes_response; // null where nobody knows
  if (writes === false) return "This system writes no response. It found these passages.";
  return writes ? "The response is empty." : "There is no response. These passages were found.";
}

function drawChange({ replaced, shortened }) {
  if (shortened) return make("p", "none", `The answer is shortened to ${counted(shortened, "word")}.`);
  return replaced ? foreign("p", "none", `Replaced: ${replaced}.`) : null;
}

function drawDoubts({ unknown, cites_none: none }) {
  const doubts = [];
  if (none) doubts.push("The answer cites none of the passages that it was shown.");
  if (unknown.length) doubts.push(`No passage has the number ${unknown.join(", ")}.`);
  return doubts.map((text) => make("p", "problem", text));
}

function drawSteps({ facts, citations }) {
  const parts = [...drawQueries(facts), ...drawScores(citations)];
  return parts.length ? make("details", "steps", make("summary", "", "How it searched"), ...parts) : null;
}

function drawQueries({ rewrite, queries, statements, draft }) {
  const item = (text) => foreign("li", "", text === draft ? "the draft answer" : text);
  const list = (texts) => make("ul", "", ...texts.map(item));
  const parts = [];
  const add = (title, content) => parts.push(heading(title), content);
  const same = queries.length === 1 && queries[0] === rewrite;
  if (rewrite) add(same ? "Rewrite, the only query" : "Rewrite", foreign("p", "", rewrite));
  if (queries.length && !same) add(queries.length === 1 ? "Query" : `${queries.length} queries`, list(queries));
  if (statements.length) add(`${counted(statements.length, "statement")} about you`, list(statements));
  if (draft) add("Draft answer", foreign("p", "draft", draft));
  return parts;
}

function drawScores(citations) {
  const scored = citations.filter(({ score }) => typeof score === "number");
  if (!scored.length) return [];
  const rows = scored.map(({ id, score }) => {
    return make("li", "", make("code", "", shown(id)), make("span", "score", score.toFixed(2)));
  });
  return [heading("Scores"), make("ul", "scores", ...rows)];
}

// The heading of a part of an answer; above it stands the system's name, if there are two systems.
function heading(title) {
  const made = make("h4", "", title);
  made.setAttribute("aria-level", talk.systems.length > 1 ? "4" : "3");
  return made;
}

// The last line of an answer: what can be done with it, and what it cost.

function drawFoot(turn, place, answer) {
  const { system, facts } = answer;
  const tools = make("span", "tools", drawVersions(turn, place));
  if (answer.state === "done") {
    if (facts.response) {
      const label = `Copy the answer of ${system} with its sources`;
      tools.append(iconButton("copy", () => actions.copy(answer), label, "Copy with sources"));
    }
    tools.append(iconButton("again", () => actions.again(turn, place), `Ask again: ${system}`, "Ask again", "retry"));
  } else {
    tools.append(button("Retry", () => actions.retry(turn, place), `Retry: ${system}`, "retry"));
  }
  return make("div", "foot", tools, facts ? make("span", "figures", figures(facts)) : null);
}

function drawVersions(turn, place) {
  const side = turn.sides[place];
  if (side.versions.length < 2) return null;
  const step = (icon, by, label) => {
    const name = `${label}: ${current(side).system}`;
    const made = iconButton(icon, () => actions.show(turn, place, side.at + by), name, label);
    made.disabled = !side.versions[side.at + by];
    return made;
  };
  const count = make("span", "count", `${side.at + 1} of ${side.versions.length}`);
  const versions = make("span", "versions", step("earlier", -1, "Earlier answer"), count, step("later", 1, "Later answer"));
  if (!isLast(turn) && side.used !== side.at) {
    versions.append(make("span", "used", `The conversation went on with ${side.used + 1}.`));
  }
  return versions;
}

function figures({ seconds, calls, known, tokens, cost, omitted }) {
  const price = cost === null ? "cost unknown" : `$${cost >= 0.01 || !cost ? cost.toFixed(2) : cost.toPrecision(2)}`;
  return [
    `${seconds.toFixed(1)} s`,
    counted(calls, "LLM call"),
    known ? counted(known, "known completion") : "",
    tokens ? counted(tokens, "token") : "",
    calls ? price : "",
    omitted ? `without the oldest ${counted(omitted, "message")} of the history` : "",
  ].filter(Boolean).join(" · ");
}

// What a screen reader hears of an answer that has ended.
export function tellOutcome(answer) {
  const { system, state, facts, citations, problem } = answer;
  if (state !== "done") return tell(`${system}: ${problem ?? "Stopped."}`);
  return tell(`${system}: ${facts.response || noResponse(answer)} ${counted(citations.length, "passage")}.`);
}
