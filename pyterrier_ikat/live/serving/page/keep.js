// What outlives a reload. This tab keeps its conversation until it is closed; this browser keeps the
// last conversations where its user switches that on. Nothing is kept on the server for the page.

const MOST = 20; // conversations in the list
const INDEX = "ikat-talks";
const SWITCH = "ikat-keep";
const LOCK_PATIENCE = 1000; // milliseconds until a conversation counts as another tab's

export function stored(name) {
  try {
    return sessionStorage.getItem(`ikat-${name}`) ?? "";
  } catch {
    return ""; // a browser may forbid it
  }
}

// Keep a text in this tab. Returns whether it is kept.
export function store(name, value) {
  try {
    sessionStorage.setItem(`ikat-${name}`, value);
    return true;
  } catch {
    return false;
  }
}

export function storedTalk(name) {
  try {
    return JSON.parse(stored(name));
  } catch {
    return null; // nothing is kept, or not what this page has kept
  }
}

export const isListing = () => readLocal(SWITCH) === "on";

export function setListing(on) {
  return writeLocal(SWITCH, on ? "on" : "");
}

// The kept conversations, the newest first: {chat, words} each, where words is the first question.
export function listed() {
  try {
    return JSON.parse(readLocal(INDEX)) ?? [];
  } catch {
    return [];
  }
}

export function listedTalk(chat) {
  try {
    return JSON.parse(readLocal(keyOf(chat)));
  } catch {
    return null;
  }
}

// Keep a conversation in the list. Returns whether there was room for it.
export function list(talk) {
  const others = listed().filter(({ chat }) => chat !== talk.chat);
  for (const { chat } of others.slice(MOST - 1)) removeLocal(keyOf(chat));
  const entries = [{ chat: talk.chat, words: talk.turns[0].words }, ...others.slice(0, MOST - 1)];
  return writeLocal(keyOf(talk.chat), JSON.stringify(talk)) && writeLocal(INDEX, JSON.stringify(entries));
}

export function forgetAll() {
  for (const { chat } of listed()) removeLocal(keyOf(chat));
  removeLocal(INDEX);
}

const keyOf = (chat) => `ikat-talk-${chat}`;

function readLocal(key) {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function writeLocal(key, value) {
  try {
    localStorage.setItem(key, value);
    return true;
  } catch {
    return false;
  }
}

function removeLocal(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // a browser that forbids it has kept nothing
  }
}

// The tab that has a conversation open holds its lock, so that a duplicated tab notices it.
let release = () => {};

// Hold the lock of a conversation. Returns false if another tab has it open.
export function hold(chat) {
  release();
  if (!navigator.locks) return Promise.resolve(true); // without HTTPS there are none
  return new Promise((done) => {
    const whileHeld = () => new Promise((end) => {
      release = end;
      done(true);
    });
    const signal = AbortSignal.timeout(LOCK_PATIENCE);
    navigator.locks.request(`ikat-${chat}`, { signal }, whileHeld).catch(() => done(false));
  });
}
