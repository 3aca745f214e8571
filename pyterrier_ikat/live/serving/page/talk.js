// The conversation as data. A turn has the user's words and a side for each system; a side has the
// versions of its answer, the number of the one that is shown, and of the one that the conversation
// goes on with. An answer is "waiting", "done", "stopped" (its words so far stay) or "failed".

import { hold } from "./keep.js";

export const talk = { systems: [], chat: "", turns: [], persona: "" };

let owned = Promise.resolve();
export const hasOwnId = () => owned;

function random() {
  const numbers = [...crypto.getRandomValues(new Uint32Array(4))];
  return numbers.map((number) => number.toString(16).padStart(8, "0")).join("");
}

export function newChat() {
  const time = new Date().toISOString().slice(0, 19).replace(/\D/g, "");
  talk.chat = `chat-${time}-${random().slice(0, 8)}`;
  owned = hold(talk.chat);
}

// Take a conversation up again: one that another tab has open gets an id of its own.
export function ownChat(changed) {
  owned = hold(talk.chat).then((isOwn) => {
    if (isOwn) return;
    newChat();
    changed();
  });
}

export function newAnswer(system, sample) {
  const written = { text: "", html: "", until: 0 };
  return { id: random(), system, sample, state: "waiting", step: "waiting", since: Date.now(), ...written };
}

export const current = (side) => side.versions[side.at];
export const used = (side) => side.versions[side.used];
export const answers = () => talk.turns.flatMap((turn) => turn.sides).map(current);
export const waiting = () => answers().filter((answer) => answer?.state === "waiting");
export const isLast = (turn) => talk.turns.at(-1) === turn;
export const hasWords = (answer) => answer.state === "done" || answer.text !== "";
export const statements = () => talk.persona.split("\n").map((line) => line.trim()).filter(Boolean);

// Add a version of an answer; it takes the place of one that has no words.
export function addVersion(side, answer) {
  if (side.versions.length && !hasWords(current(side))) side.versions.splice(side.at, 1);
  side.versions.push(answer);
  choose(side, side.versions.length - 1, true);
}

// Show a version. The conversation goes on with it if nothing was said after it.
export function choose(side, at, goesOn) {
  side.at = at;
  if (goesOn) side.used = at;
}

// The number of the next sample: past the cache, and past all versions.
export const nextSample = (side) => Math.max(...side.versions.map(({ sample }) => sample)) + 1;

// What an answer is in the history: the response, or the words that were there when it was stopped.
export function said(answer) {
  if (answer.state === "done") return answer.facts.response;
  if (answer.state === "stopped") return answer.text.replace(/ (\[\d{1,2}\])+(?=\s|$)/g, "");
  return "";
}

export function history(turn, place) {
  const messages = [];
  for (const { words, sides } of talk.turns.slice(0, talk.turns.indexOf(turn))) {
    messages.push({ role: "user", content: words });
    const content = said(used(sides[place]));
    if (content) messages.push({ role: "assistant", content });
  }
  return [...messages, { role: "user", content: turn.words }];
}

// The schema of iKAT 2023 and 2024, as `ikat chat --out` writes it.
export function topics(place) {
  const turns = talk.turns.map(({ words, sides }, at) => {
    const answer = used(sides[place]);
    const response = said(answer);
    const passages = response ? answer.citations ?? [] : [];
    return { turn_id: at + 1, utterance: words, response, response_provenance: passages.map(({ id }) => id) };
  });
  const ptkb = Object.fromEntries(statements().map((text, at) => [at + 1, text]));
  return [{ number: talk.chat, title: "", ptkb, turns }];
}

// The conversation without what belongs to the page that shows it.
export function plain() {
  const turns = talk.turns.map(({ words, sides }) => ({ words, sides: sides.map(plainSide) }));
  return { systems: talk.systems, chat: talk.chat, persona: talk.persona, turns };
}

const plainSide = ({ versions, at, used: goesOn }) => ({ versions: versions.map(plainAnswer), at, used: goesOn });

function plainAnswer({ id, system, sample, state, text, html, until, step, since, citations, facts, problem }) {
  return { id, system, sample, state, text, html, until, step, since, citations, facts, problem };
}
