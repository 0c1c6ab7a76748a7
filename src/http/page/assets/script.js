// What the pages of asat cannot do without a script: say at once what has happened, and publish, pin and open.
// Every page can be read without it.
"use strict";

const byId = (id) => document.getElementById(id);
document.documentElement.classList.add("scripted-page");

// --- Asking the API ---

const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

async function ask(method, path, body, headers = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: { "Content-Type": "application/json", ...headers },
      body: body && JSON.stringify(body),
    });
  } catch {
    throw new Error("The daemon cannot be reached. Try again in a moment.");
  }
  const value = await answer.json().catch(() => null);
  if (answer.ok) return value;
  if (!value?.detail) throw new Error(`The daemon answered ${answer.status}.`);
  throw new Error(`${sentence(value.detail)} ${value.hint ? sentence(value.hint) : ""}`);
}

/// A name that nobody else gives a publication: a request that is sent twice publishes once.
function newKey() {
  const numbers = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(numbers, (number) => number.toString(16).padStart(2, "0")).join("");
}

function say(text) {
  byId("said").textContent = text;
}

// --- Keeping the page as things are ---

let refreshing = false;
let stale = false;

/// Asks for this page again and takes over the parts that have changed.
async function refresh() {
  stale = true;
  if (refreshing) return;
  refreshing = true;
  try {
    while (stale) {
      stale = false;
      const answer = await fetch(location.href, { headers: { Accept: "text/html", "Asat-Refresh": "1" } });
      // Whoever is not signed in any more is shown how to be.
      if (answer.status === 401) return location.reload();
      if (answer.ok) takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
  } catch {
    // The stream of events says that the daemon is away, and asks again when it is back.
  } finally {
    refreshing = false;
  }
}

function takeOver(fresh) {
  document.title = fresh.title;
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (!next || next.outerHTML === withoutState(part)) continue;
    const focused = part.contains(document.activeElement) && document.activeElement.id;
    const open = Array.from(part.querySelectorAll("details[open]"), (details) => details.id);
    part.replaceWith(document.adoptNode(next));
    open.forEach((id) => byId(id)?.setAttribute("open", ""));
    if (focused) byId(focused)?.focus({ preventScroll: true });
  }
}

/// A part as it was sent: what the reader has unfolded is no change.
function withoutState(part) {
  const copy = part.cloneNode(true);
  copy.querySelectorAll("details[open]").forEach((details) => details.removeAttribute("open"));
  return copy.outerHTML;
}

const HEARD = ["version", "publication", "tag", "lease", "guard", "alarm", "watch", "missed"];
let stream = null;
let soon = 0;

/// Many things may happen at once, or go on for hours: the page is asked for a moment after the first of them.
function refreshSoon() {
  soon ||= setTimeout(() => {
    soon = 0;
    refresh();
  }, 250);
}

function listen() {
  stream?.close();
  stream = new EventSource("/v1/events");
  HEARD.forEach((name) => stream.addEventListener(name, refreshSoon));
  stream.onopen = () => {
    showLive(true);
    refresh();
  };
  stream.onerror = () => {
    showLive(false);
    // An answer that was no stream ends it for good: perhaps the session is over, else it is begun anew.
    if (stream.readyState !== EventSource.CLOSED) return;
    refresh();
    setTimeout(follow, 5000);
  };
}

/// A page that nobody looks at holds no connection: a browser has few of them.
function follow() {
  if (document.hidden) stream?.close();
  else listen();
}

function showLive(is) {
  byId("live").hidden = false;
  byId("live").classList.toggle("broken", !is);
  byId("live").textContent = is ? "live" : "not live: the daemon does not answer";
}

// --- Forms ---

/// What was filled in; what was left empty is left out.
const filled = (form) => Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim() !== ""));

const path = (version, what) => `/v1/versions/${encodeURIComponent(version)}/${what}`;

const FORMS = {
  async publish(form) {
    const answer = await ask("POST", "/v1/snapshots", filled(form), { "Idempotency-Key": form.dataset.key });
    const versions = (answer.published ?? [answer]).map((published) => published.version.id).join(", ");
    return { said: answer.reused ? `${versions}: published again, as nothing had changed.` : `${versions}: published.` };
  },
  async pin(form) {
    const { version, expires_on: day, ...pin } = filled(form);
    if (day) pin.expires_at = `${day}T23:59:59Z`;
    await ask("PUT", path(version, "pin"), pin);
    return { said: `${version}: pinned.` };
  },
  async open(form) {
    const { version, holder, ttl_minutes: minutes } = filled(form);
    const mount = await ask("POST", path(version, "mounts"), { holder, ttl_seconds: 60 * Number(minutes) });
    return { path: mount.path };
  },
};

let opener = "";

function openDialog(button) {
  const dialog = byId(button.dataset.dialog);
  const form = dialog.querySelector("form");
  form.reset();
  form.dataset.key = newKey();
  for (const input of form.querySelectorAll("input[type=hidden]")) input.value = button.dataset[input.name] ?? "";
  for (const shown of dialog.querySelectorAll("[data-shows]")) {
    shown.textContent = shown.dataset.shows.split(" ").map((name) => button.dataset[name] ?? "").join("");
  }
  for (const text of dialog.querySelectorAll(".problem, .outcome")) text.textContent = "";
  opener = button.id;
  dialog.showModal();
}

async function send(dialog, form) {
  const [problem, outcome, button] = [".problem", ".outcome", "button.main"].map((what) => form.querySelector(what));
  problem.textContent = "";
  button.disabled = true;
  try {
    const done = await FORMS[dialog.id](form);
    if (done.said) {
      say(done.said);
      dialog.close();
    } else {
      const code = document.createElement("code");
      code.textContent = done.path;
      const copy = document.createElement("button");
      Object.assign(copy, { type: "button", className: "copy", textContent: "Copy" }).dataset.copy = "";
      outcome.replaceChildren("It is open at ", code, " ", copy);
    }
    refresh();
  } catch (error) {
    problem.textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

/// Does what a button says that needs no form.
async function act(method, path, body, done) {
  try {
    await ask(method, path, body);
    say(done);
    refresh();
  } catch (error) {
    say(error.message);
  }
}

/// Copies what stands before a button. A page that came over plain HTTP may not write to the clipboard: what is selected there is copied as by hand.
async function copy(button) {
  const code = button.previousElementSibling;
  const text = code.textContent.trim();
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(code);
    if (!document.execCommand("copy")) return tell(button, "Selected: copy it by keyboard");
  }
  tell(button, "Copied");
}

/// Says on a button for a moment what came of it.
function tell(button, text) {
  const label = button.firstChild;
  label.textContent = text;
  setTimeout(() => (label.textContent = "Copy"), 3000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { dialog, unpin, acknowledge } = button.dataset;
  if (dialog) openDialog(button);
  else if ("copy" in button.dataset) copy(button);
  else if ("close" in button.dataset) button.closest("dialog").close();
  else if (unpin) act("DELETE", path(unpin, "pin"), undefined, `${unpin}: not pinned any more.`);
  else if (acknowledge) act("POST", "/v1/capacity/alarms/acknowledge", { key: acknowledge }, `${acknowledge}: known.`);
});

for (const dialog of document.querySelectorAll("dialog")) {
  const form = dialog.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(dialog, form);
  });
  // The button may have been replaced since by one that is like it.
  dialog.addEventListener("close", () => byId(opener)?.focus());
}

if (document.querySelector("[data-live]")) {
  follow();
  document.addEventListener("visibilitychange", follow);
  // Times go on, and space fills, where nothing happens.
  setInterval(() => document.hidden || refresh(), 30000);
}
