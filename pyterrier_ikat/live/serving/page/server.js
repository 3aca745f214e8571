// Requests to the server, its token, and the events of a stream.

import { make, one } from "./elements.js";
import { store, stored } from "./keep.js";

let token = stored("token");
let asking = null; // the dialog that asks for a token

export async function call(path, init = {}) {
  for (;;) {
    const used = token;
    const response = await fetch(path, { ...init, headers: headersWith(used, init) }).catch((error) => {
      if (init.signal?.aborted) throw error;
      throw new Error("The server does not answer. Check that it is running, and retry.");
    });
    if (response.ok) return response;
    if (response.status !== 401) throw Object.assign(new Error(await reasonOf(response)), { status: response.status });
    if (used === token) await askToken(used); // else it was entered while this call was under way
  }
}

// Send a request whose answer nobody waits for.
export function notify(path, init) {
  fetch(path, { ...init, keepalive: true, headers: headersWith(token, init) }).catch(() => {});
}

function headersWith(used, { headers = {} }) {
  return used ? { ...headers, Authorization: `Bearer ${used}` } : headers;
}

async function reasonOf(response) {
  const body = await response.json().catch(() => null);
  return body?.error?.message || `The server refused the request (status ${response.status}).`;
}

function askToken(refused) {
  asking ??= new Promise((done, fail) => {
    const dialog = one("#ask-token");
    const input = one("#token");
    const why = refused ? "The server refused this token." : "The person who started the server has it.";
    one("#token-why").textContent = why;
    dialog.returnValue = "";
    dialog.showModal();
    dialog.addEventListener("close", () => {
      asking = null;
      if (dialog.returnValue === "use") {
        token = input.value;
        store("token", token);
        done();
      } else {
        fail(new Error("The server asks for a token. Retry to enter it."));
      }
      input.value = "";
    }, { once: true });
  });
  return asking;
}

// The events of a stream. They end without an error where the connection breaks.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: {")) yield JSON.parse(part.slice(6));
    }
  }
}

// Let the user save a file.
export function saveFile(name, content) {
  const link = make("a", "");
  link.href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
