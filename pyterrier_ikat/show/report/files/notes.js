  // What a reader notes stays in the browser, for this page alone, until it is saved as a file.

  const noteOf = (turn) => one(".notes textarea", turn.element).value;
  const noted = () => turns.filter((turn) => noteOf(turn).trim());

  function keepNotes() {
    let store;
    try { store = framed ? null : localStorage; } catch { return; }
    for (const turn of store ? turns : []) {
      const box = one(".notes", turn.element), key = `${location.pathname}#${turn.name}`, room = one("textarea", box);
      room.value = store.getItem(key) ?? "";
      box.hidden = false;
      box.open = Boolean(room.value);
      room.addEventListener("input", () => {
        if (room.value) store.setItem(key, room.value);
        else store.removeItem(key);
        one("#save-notes").hidden = !noted().length;
      });
    }
    one("#save-notes").hidden = !noted().length;
  }

  // A CSV file with a row per note.
  function saveNotes() {
    const quoted = (text) => `"${text.replaceAll('"', '""')}"`, link = document.createElement("a");
    const rows = noted().map((turn) => [turn.name, noteOf(turn)].map(quoted).join(","));
    link.href = URL.createObjectURL(new Blob([`qid,note\r\n${rows.join("\r\n")}\r\n`], { type: "text/csv" }));
    link.download = "notes.csv";
    link.click();
  }

  keepNotes();
  one("#save-notes").addEventListener("click", saveNotes);

