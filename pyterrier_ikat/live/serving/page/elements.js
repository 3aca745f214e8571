// Elements of the page. Texts of users, passages and models become text nodes, never markup, and
// lose the controls that reorder other text.

const ICONS = {
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  again: "M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  back: "M9 14 4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
  earlier: "M15 5l-7 7 7 7",
  later: "M9 5l7 7-7 7",
};

export const one = (query, root = document) => root.querySelector(query);
export const shown = (text) => String(text).replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
export const counted = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

export function make(tag, name, ...content) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...content.filter((part) => part !== null && part !== undefined && part !== ""));
  return element;
}

// An element with a text of a user, a passage or a model, in the text's own direction.
export function foreign(tag, name, text) {
  const element = make(tag, name, shown(text));
  element.dir = "auto";
  return element;
}

export function button(text, action, label = text, name = "") {
  const made = make("button", name, text);
  made.type = "button";
  if (label !== text) made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

export function iconButton(icon, action, label, title, name = "") {
  const made = button(drawnIcon(icon), action, label, `icon ${name}`);
  made.title = title;
  return made;
}

function drawnIcon(icon) {
  const svg = one("#send svg").cloneNode(true);
  one("path", svg).setAttribute("d", ICONS[icon]);
  return svg;
}

// Tell something to a screen reader, which reads it when it has nothing else to say.
export function tell(text) {
  const news = one("#news");
  news.append(make("p", "", shown(text)));
  if (news.children.length > 8) news.firstChild.remove();
}
