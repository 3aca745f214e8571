// The chat page: questions, answers under way, keys and buttons.

import {
  actions, drawSide, drawTurn, model, models, showBlock, showNothing, showStep, showText, tellOutcome,
} from "./draw.js";
import { button, foreign, make, one, shown, tell } from "./elements.js";
import { forgetAll, isListing, list, listed, listedTalk, setListing, store, stored, storedTalk } from "./keep.js";
import { hidePeek, hidePeekSoon, isPeeking, openPassage, showPeek } from "./passages.js";
import { call, events, notify, saveFile } from "./server.js";
import {
  addVersion, choose, current, hasOwnId, history as historyOf, newAnswer, newChat, nextSample, ownChat, plain,
  statements, talk, topics, waiting,
} from "./talk.js";

const EXAMPLES = [
  "How can I cook healthy meals during a busy week?",
  "Which day walks suit a family with small children?",
  "What should I know before I adopt a dog?",
];
const SETTLING_FRAMES = 10;
const KEEP_EVERY = 500; // milliseconds between two times that an answer under way is kept
const words = one("#words");
const persona = one("#persona");
const selects = [one("#system0"), one("#system1")];
const narrow = matchMedia("(max-width: 860px)");
let leaving = false; // the page is reloaded or closed: what its requests end with is not their end

// Questions and answers.

function say(text) {
  if (!talk.turns.length) {
    chooseSystems();
    newChat();
    talk.persona = persona.value;
  }
  const turn = { words: text, sides: talk.systems.map(() => ({ versions: [], at: 0, used: 0 })) };
  talk.turns.push(turn);
  drawTurn(turn);
  talk.systems.forEach((_, place) => ask(turn, place));
  turn.element.scrollIntoView({ block: "start" });
}

function chooseSystems() {
  talk.systems = selects.map((select) => select.value).filter(Boolean);
}

function ask(turn, place, sample = 0) {
  const answer = newAnswer(talk.systems[place], sample);
  addVersion(turn.sides[place], answer);
  return follow(turn, place, answer, async (signal) => {
    await hasOwnId();
    const metadata = { ptkb: statements(), chat_id: talk.chat, answer_id: answer.id };
    const question = { model: answer.system, messages: historyOf(turn, place), sample, metadata };
    const body = JSON.stringify({ ...question, stream: true, stream_unchecked: true });
    const headers = { "Content-Type": "application/json" };
    return call("v1/chat/completions", { method: "POST", body, headers, signal });
  });
}

// Read on in an answer that this page has left. The server has it for some seconds.
function join(turn, place, answer) {
  answer.state = "waiting";
  answer.joins = true;
  return follow(turn, place, answer, (signal) => call(`answers/${answer.id}`, { signal }));
}

async function follow(turn, place, answer, request) {
  answer.abort = new AbortController();
  drawSide(turn, place);
  refresh();
  keep();
  try {
    await read(answer, await request(answer.abort.signal));
  } catch (error) {
    if (leaving) return;
    fail(answer, error);
  }
  if (talk.turns.includes(turn) && current(turn.sides[place]) === answer) {
    drawSide(turn, place);
    tellOutcome(answer);
  }
  refresh();
  keep();
}

// An answer whose reader has stopped it, or whose connection broke, keeps its words.
function fail(answer, error) {
  const isStopped = answer.abort.signal.aborted;
  answer.state = isStopped || answer.text ? "stopped" : "failed";
  answer.isCut = Boolean(error.isCut);
  answer.isGone = Boolean(answer.joins) && error.status === 404;
  answer.problem = isStopped ? undefined : error.message;
  if (answer.isGone) answer.problem = "The page was left before the answer was complete. Retry.";
}

async function read(answer, response) {
  for await (const chunk of events(response)) {
    if (chunk.error) {
      forgetText(answer);
      throw new Error(chunk.error.message);
    }
    if (hear(answer, chunk)) return;
  }
  throw Object.assign(new Error("The connection ended before the answer was complete. Retry."), { isCut: true });
}

// Take in a part of a stream. Returns whether it is the last one.
function hear(answer, chunk) {
  const choice = chunk.choices?.[0];
  const facts = chunk.ikat ?? {};
  if (choice?.finish_reason) {
    Object.assign(answer, { state: "done", citations: chunk.citations, facts, problem: undefined });
    return true;
  }
  if (facts.activity) showStep(answer, facts.activity);
  if ("replaced" in facts) forgetText(answer);
  if (choice?.delta.content) write(answer, choice.delta.content);
  if (facts.block) finish(answer, facts);
  keepSoon();
  return false;
}

function write(answer, piece) {
  if (answer.joins) forgetText(answer); // the server begins with all of it
  answer.text += piece;
  showText(answer);
}

function finish(answer, { block, until }) {
  answer.html += block;
  answer.until = until;
  showBlock(answer, block);
}

function forgetText(answer) {
  Object.assign(answer, { text: "", html: "", until: 0, joins: false });
  showNothing(answer);
}

function stopAnswers(all) {
  for (const answer of all) {
    answer.abort?.abort();
    Object.assign(answer, { state: "stopped", problem: undefined });
    notify(`answers/${answer.id}`, { method: "DELETE" });
  }
}

const stop = () => stopAnswers(waiting());

actions.again = (turn, place) => ask(turn, place, nextSample(turn.sides[place]));

actions.retry = async (turn, place) => {
  const answer = current(turn.sides[place]);
  if (answer.isCut) await join(turn, place, answer);
  if (!answer.isCut || answer.isGone) ask(turn, place, answer.sample);
};

actions.show = (turn, place, at) => {
  choose(turn.sides[place], at, talk.turns.at(-1) === turn);
  drawSide(turn, place);
  keep();
};

actions.copy = async ({ text, citations }) => {
  const sources = citations.map(({ id, text: whole }, at) => `[${at + 1}] ${id}${whole ? `: ${whole}` : ""}`);
  const parts = sources.length ? [text, sources.join("\n")] : [text];
  try {
    await navigator.clipboard.writeText(parts.join("\n\n"));
    tell("The answer is copied with its sources.");
  } catch {
    complain("This browser copies only from pages with HTTPS or of this machine.");
  }
};

actions.edit = (turn) => {
  if (waiting().length) return;
  const question = one(".question", turn.element);
  const field = make("textarea", "");
  const leave = () => {
    box.replaceWith(question);
    one("button", question).focus();
  };
  const again = () => {
    const text = field.value.trim();
    if (!text) return;
    const edited = talk.turns.indexOf(turn);
    leaveBehind({ ...plain(), edited });
    drop(edited);
    say(text);
  };
  const row = make("div", "row", button("Ask this", again, "Ask this", "main"), button("Cancel", leave));
  const box = make("div", "edited", field, row, make("p", "quiet", "The turns from here on are dropped. You can go back."));
  field.setAttribute("aria-label", "The question");
  field.dir = "auto";
  field.value = turn.words;
  onEnter(field, again);
  question.replaceWith(box);
  field.focus();
};

function drop(from) {
  const dropped = talk.turns.splice(from);
  stopAnswers(dropped.flatMap(({ sides }) => sides.map(current)).filter(({ state }) => state === "waiting"));
  for (const { element } of dropped) element.remove();
}

function exportTalk(place) {
  const name = `${talk.chat}-${talk.systems[place].replace(/[^\w.-]+/g, "_")}.json`;
  saveFile(name, JSON.stringify(topics(place), null, 1));
  tell(`${name} is saved.`);
}

// Conversations: this one is kept in the tab, the one before it can come back, others are in a list.

let nextKeep = 0;
// The conversation that was left: for a new one, or as it was before its turn number `edited` was edited.
let before = storedTalk("undo");
const room = { tab: true, list: true }; // whether the storages have room

function keepSoon() {
  nextKeep ||= setTimeout(() => {
    nextKeep = 0;
    keepInTab();
  }, KEEP_EVERY);
}

function keepInTab() {
  room.tab = store("talk", JSON.stringify(plain()));
  drawRoom();
}

function keep() {
  keepInTab();
  if (!isListing() || !talk.turns.length) return;
  room.list = list(plain());
  drawList();
}

function drawRoom() {
  const about = one("#kept-about");
  let text = "This tab keeps the conversation until you close it.";
  if (isListing()) text = "Only this browser keeps them.";
  if (!room.tab) text = "This browser does not keep the conversation: a reload deletes it, so export it.";
  if (isListing() && !room.list) {
    text = "The storage of this browser is full: this conversation is not in the list. Export it, or forget all.";
  }
  if (about.textContent === text) return;
  about.textContent = text;
  if (!room.tab || !room.list) tell(text);
}

function drawList() {
  const entries = listed();
  const items = entries.map(({ chat, words: text }) => {
    const open = button(shown(text), () => openListed(chat));
    open.dir = "auto";
    open.disabled = chat === talk.chat && talk.turns.length > 0;
    return make("li", "", open);
  });
  one("#kept-list").replaceChildren(...items);
  one("#forget").hidden = !entries.length;
  one("#keep").checked = isListing();
  drawRoom();
}

function leaveTalk() {
  if (!talk.turns.length) return;
  stop();
  leaveBehind(plain());
  drop(0);
  talk.chat = "";
}

function leaveBehind(left) {
  before = left;
  store("undo", left ? JSON.stringify(left) : "");
}

function freshTalk() {
  leaveTalk();
  keep();
  refresh();
  drawList();
  words.focus();
}

function openListed(chat) {
  const found = listedTalk(chat);
  if (!found || !restore(found)) complainOfSystems();
}

function undo() {
  const left = before;
  if (!restore(left)) {
    complainOfSystems();
    return;
  }
  // What an edit had made can come back in turn. An empty conversation was not left behind.
  leaveBehind(before === left ? null : { ...before, edited: left.edited });
  keep();
  refresh();
  words.focus();
}

// Take a conversation up again. Returns whether its systems are there.
function restore(found) {
  if (!found?.systems?.every(model)) return false;
  leaveTalk();
  Object.assign(talk, { systems: found.systems, chat: found.chat, persona: found.persona, turns: [] });
  persona.value = talk.persona;
  if (talk.systems.length) selects.forEach((select, place) => { select.value = talk.systems[place] ?? ""; });
  for (const { words: text, sides } of found.turns) {
    const turn = { words: text, sides };
    talk.turns.push(turn);
    drawTurn(turn);
  }
  if (talk.turns.length) ownChat(keep);
  takeUpAnswers();
  refresh();
  drawList();
  standAtLastTurn(SETTLING_FRAMES);
  return true;
}

// Turns out of sight have an estimated height until they are laid out, so that the first aim may miss.
function standAtLastTurn(frames) {
  talk.turns.at(-1)?.element.scrollIntoView({ block: "start" });
  if (frames) requestAnimationFrame(() => standAtLastTurn(frames - 1));
}

function takeUpAnswers() {
  for (const turn of talk.turns) {
    turn.sides.forEach((side, place) => {
      if (current(side).state === "waiting") join(turn, place, current(side));
      else drawSide(turn, place);
    });
  }
}

// What is shown beside the conversation.

function refresh() {
  const busy = waiting().length > 0;
  const begun = talk.turns.length > 0;
  one("#send").disabled = busy || !selects[0].value;
  one("#send").hidden = busy;
  one("#stop").hidden = !busy;
  one("#fresh").disabled = !begun;
  one("#choice").disabled = persona.readOnly = begun;
  one("#fixed").hidden = !begun;
  one("#empty").hidden = begun;
  drawUndo(begun);
  const exported = begun && !busy ? talk.systems : [];
  const exports = exported.map((id, place) => button(`Export with answers of ${id}`, () => exportTalk(place)));
  one("#exports").replaceChildren(...exports);
  selects.forEach((select, place) => { one(`#about${place}`).textContent = shown(model(select.value)?.about ?? ""); });
  const offered = model(selects[0].value)?.examples ?? [];
  const examples = offered.length ? offered : EXAMPLES;
  one("#examples").replaceChildren(...examples.map((text) => button(text, () => send(text))));
}

function drawUndo(begun) {
  const isOffered = Boolean(before) && (!begun || before.edited !== undefined);
  one("#undo").hidden = !isOffered;
  if (!isOffered) return;
  const turn = before.turns[before.edited ?? 0];
  one("#undo button").replaceChildren("Back to ", foreign("q", "", turn.words));
}

function complain(text) {
  one("#problem .problem").textContent = text;
  one("#problem").hidden = false;
}

function complainOfSystems() {
  complain("This conversation can't be opened: its systems are not served here.");
}

function foldSetup() { // in a wide window nothing could unfold it again
  one("#setup > details").open = !narrow.matches;
}

// The start, keys and buttons.

function send(text) {
  if (!text || !selects[0].value || waiting().length) return;
  if (narrow.matches) one("#setup > details").open = false;
  leaveBehind(null);
  say(text);
}

function onEnter(field, action) {
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    action();
  });
}

function sendWords(event) {
  event?.preventDefault();
  if (waiting().length) return tell("The systems are still answering. Escape stops them.");
  const text = words.value.trim();
  if (!text || !selects[0].value) return undefined;
  words.value = "";
  store("draft", "");
  return send(text);
}

async function load() {
  one("#problem").hidden = true;
  try {
    const { data } = await (await call("v1/models")).json();
    models.splice(0, models.length, ...data);
  } catch (error) {
    return complain(error.message);
  }
  const option = (id, text) => Object.assign(make("option", "", shown(text)), { value: id });
  const label = ({ id, writes_response: writes }) => writes === false ? `${id} (passages only)` : id;
  const options = () => models.map((served) => option(served.id, label(served)));
  selects[0].replaceChildren(...options());
  selects[1].replaceChildren(option("", "no other system"), ...options());
  const found = storedTalk("talk");
  if (!found || !restore(found)) {
    refresh();
    drawList();
  }
  return undefined;
}

function onKey(event) {
  if (event.key !== "Escape" || one("dialog[open]")) return;
  if (isPeeking()) hidePeek();
  else stop();
}

function citeAt(event) {
  return event.target.closest?.(".cite");
}

function onCites(kind, action) {
  one("#turns").addEventListener(kind, (event) => {
    const cite = citeAt(event);
    if (cite) action(cite, cite.closest(".side").answer, event);
  });
}

onCites("click", (cite) => openPassage(cite));
onCites("focusin", (cite, answer) => cite.matches(":focus-visible") && showPeek(cite, answer.citations));
onCites("focusout", hidePeekSoon);
onCites("pointerover", (cite, answer, event) => event.pointerType === "mouse" && showPeek(cite, answer.citations));
onCites("pointerout", hidePeekSoon);

one("#composer").addEventListener("submit", sendWords);
onEnter(words, sendWords);
words.value = stored("draft");
words.addEventListener("input", () => store("draft", words.value));
if (!CSS.supports("field-sizing", "content")) {
  words.addEventListener("input", () => { words.rows = Math.min(8, words.value.split("\n").length); });
}
persona.addEventListener("input", () => {
  talk.persona = persona.value;
  keep();
});
document.addEventListener("keydown", onKey);
for (const select of selects) {
  select.addEventListener("change", () => {
    chooseSystems();
    keep();
    refresh();
  });
}
one("#stop").addEventListener("click", stop);
one("#again").addEventListener("click", load);
one("#fresh").addEventListener("click", freshTalk);
one("#undo button").addEventListener("click", undo);
one("#keep").addEventListener("change", (event) => {
  room.list = setListing(event.target.checked);
  keep();
  drawList();
});
addEventListener("storage", drawList); // another tab has changed the list
one("#forget").addEventListener("click", () => {
  forgetAll();
  leaveBehind(null);
  room.list = true;
  drawList();
  refresh();
  tell("All kept conversations are forgotten.");
});
addEventListener("pagehide", () => {
  leaving = true;
  keepInTab();
});
addEventListener("pageshow", (event) => event.persisted && location.reload());
narrow.addEventListener("change", foldSetup);
history.scrollRestoration = "manual";
foldSetup();
load();
