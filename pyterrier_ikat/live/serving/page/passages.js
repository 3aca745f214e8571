// Passages: the list below an answer, the card of a citation, and the ways between both.

import { foreign, iconButton, make, one, shown } from "./elements.js";

const peek = one("#peek");
const NO_TEXT = "The index has no text of this passage.";
const LEAVE = 150; // milliseconds in which the pointer may go from a citation to its card
let hiding = 0;
let peeked = null; // the citation whose card is shown

export function drawPassages(citations, isCited) {
  const list = make("ol", "", ...citations.map((passage, at) => drawPassage(passage, at, isCited)));
  list.setAttribute("aria-label", "Passages");
  return make("div", "passages", list);
}

function drawPassage({ id, title, text }, at, isCited) {
  const summary = make("summary", "", make("span", "number", String(at + 1)), foreign("span", "start", title));
  if (title !== id) summary.append(make("code", "", shown(id)));
  const whole = foreign("p", "whole", text || NO_TEXT);
  const item = make("li", "");
  const open = make("div", "open", whole);
  if (isCited) {
    const label = `Back to the sentence of passage ${at + 1}`;
    open.append(iconButton("back", () => goBack(item), label, "Back to its sentence"));
  }
  item.append(make("details", "", summary, open));
  return item;
}

const numberOf = (cite) => Number(cite.textContent);
const sideOf = (element) => element.closest(".side");

// Open the passage of a citation, if the answer is complete.
export function openPassage(cite) {
  const passage = one(`.passages li:nth-child(${numberOf(cite)})`, sideOf(cite));
  if (!passage) return;
  hidePeek();
  mark(passage, sideOf(cite));
  passage.from = cite;
  one("details", passage).open = true;
  one("summary", passage).focus({ preventScroll: true });
  passage.scrollIntoView({ block: "nearest" });
}

// Go from a passage to the sentence that led to it, or to the first one that cites it.
function goBack(passage) {
  const side = sideOf(passage);
  const number = [...passage.parentElement.children].indexOf(passage) + 1;
  const cites = [...side.querySelectorAll(".answer .cite")].filter((cite) => numberOf(cite) === number);
  const cite = passage.from?.isConnected ? passage.from : cites[0];
  if (!cite) return;
  mark(cite, side);
  cite.focus({ preventScroll: true });
  cite.scrollIntoView({ block: "center" });
  hidePeek();
}

function mark(element, side) {
  for (const marked of side.querySelectorAll(".target")) marked.classList.remove("target");
  element.classList.add("target");
}

// The card of a citation. It stays while the pointer is on it.
export function showPeek(cite, citations) {
  const passage = citations?.[numberOf(cite) - 1];
  if (!passage) return;
  clearTimeout(hiding);
  const text = foreign("p", "", passage.text || NO_TEXT);
  peek.replaceChildren(make("code", "", shown(passage.id)), text);
  peek.hidden = false;
  peeked?.removeAttribute("aria-describedby");
  peeked = cite;
  peeked.setAttribute("aria-describedby", "peek");
  place(peeked.getBoundingClientRect(), peek.getBoundingClientRect());
}

function place(chip, card) {
  const below = chip.bottom + 6;
  const fitsBelow = below + card.height < innerHeight;
  peek.style.top = `${fitsBelow ? below : Math.max(4, chip.top - card.height - 6)}px`;
  peek.style.left = `${Math.max(8, Math.min(chip.left - 24, innerWidth - card.width - 8))}px`;
}

export function hidePeek() {
  clearTimeout(hiding);
  peek.hidden = true;
  peeked?.removeAttribute("aria-describedby");
  peeked = null;
}

export const isPeeking = () => !peek.hidden;

export function hidePeekSoon() {
  clearTimeout(hiding);
  hiding = setTimeout(hidePeek, LEAVE);
}

peek.addEventListener("pointerenter", () => clearTimeout(hiding));
peek.addEventListener("pointerleave", hidePeekSoon);
addEventListener("scroll", () => {
  if (peeked && peeked === document.activeElement) place(peeked.getBoundingClientRect(), peek.getBoundingClientRect());
  else hidePeek();
}, { passive: true });
