// Elements, calls to the server, jobs, and parts that all rooms share. Text is always inserted as text, not HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !(element instanceof SVGElement) && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Format a number as reports do, but large ones in full. JSON has no infinity, so it arrives as a string. */
export function fmt(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value === "Infinity" ? "∞" : value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en");
  if (size >= 1e4 && size < 1e12) return Math.round(value).toLocaleString("en"); // comparable costs differ in late digits
  if (size < 1e-4) return value.toExponential(1);
  if (size >= 1e12) return value.toExponential(digits - 1);
  return String(Number(value.toPrecision(digits)));
}

const RESTARTED = "The studio was started anew. Open the link that it printed, in this browser; then this page works again.";
/** Show a zero up to rounding as zero. */
export const tiny = (value) => (Math.abs(value) < 1e-12 ? 0 : value);

async function post(path, body, type = "application/json") {
  let response;
  try {
    response = await fetch(path, { method: "POST", headers: { "Content-Type": type }, body });
  } catch {
    throw Object.assign(new Error("The studio does not respond. Is `equipoise studio` still running?"), { unreachable: true });
  }
  if (response.status === 403) throw Object.assign(new Error(RESTARTED), { unreachable: true });
  if (response.status === 413) throw new Error(await response.text());
  const answer = response.headers.get("content-type")?.includes("json") ? await response.json() : null;
  if (!response.ok) throw new Error(answer?.error ?? (await response.text()));
  return answer;
}

export const call = (room, name, body = {}) => post(`/call/${room}/${name}`, JSON.stringify(body));
export const start = (room, name, body = {}) => post(`/job/${room}/${name}`, JSON.stringify(body));
export const stop = (job) => post("/stop", JSON.stringify({ job }));

const MOST = 256 * 2 ** 20;
export async function upload(file) {
  if (file.size > MOST) throw new Error(`${file.name} is larger than ${MOST / 2 ** 20} MB.`);
  const name = file.name.replace(/[^A-Za-z0-9 ._-]/g, "_");
  return (await post(`/file/${encodeURIComponent(name)}`, file, "application/octet-stream")).file;
}

/** Run one request at a time; of the requests made meanwhile, only the newest runs afterwards. */
export function newest(work) {
  let busy = false, next = null;
  const run = async (...args) => {
    if (busy) { next = args; return; }
    busy = true;
    try { await work(...args); } finally {
      busy = false;
      if (next) { const args = next; next = null; run(...args); }
    }
  };
  return run;
}

export function say(text) { document.getElementById("live").textContent = text; }

/** A place for an error message, which screen readers announce and the next action clears. */
export function trouble() {
  const box = h("p", { class: "error", role: "alert", hidden: true });
  let depth = 0; // a nested guard does not clear the errors of the outer one
  box.guard = async (work) => {
    if (!depth++) { box.hidden = true; box.textContent = ""; }
    try { return await work(); }
    catch (error) { box.textContent = error.message; box.hidden = false; return undefined; }
    finally { depth--; }
  };
  return box;
}

let numbers = 0;
export function field(label, control) {
  control.id ||= `control-${++numbers}`;
  return h("div", { class: "field" }, h("label", { htmlFor: control.id }, label), control);
}

export function select(options, value, onchange, props = {}) {
  return h("select", { ...props, onchange: (e) => onchange(e.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
}

export function range(label, { min, max, step, value, show = fmt, oninput }) {
  const out = h("output", {}, show(value));
  const input = h("input", { type: "range", min, max, step, value: String(value),
    oninput: (e) => { out.textContent = show(+e.target.value); oninput(+e.target.value); } });
  const box = field(label, input);
  box.firstChild.after(out);
  box.classList.add("range");
  box.set = (x) => { input.value = x; out.textContent = show(x); };
  return box;
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value, mark]) =>
    h("div", { class: mark ?? "" }, h("dt", {}, name), h("dd", {}, fmt(value)))));
}

export function table({ columns, rows }, caption, props = {}) {
  const numeric = columns.map((_, i) => rows.every((row) => row[i] === null || typeof row[i] === "number"));
  const built = h("table", props, caption && h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((name, i) => h("th", { scope: "col", class: numeric[i] ? "number" : "" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value, i) => {
      const shown = value instanceof Node ? value : fmt(value);
      const cell = h("td", { class: numeric[i] ? "number" : "" }, shown);
      cell.dataset.label = columns[i];
      return cell;
    })))));
  const box = h("div", { class: "scroll", tabIndex: 0, role: "group", "aria-label": caption || columns.filter(Boolean).join(", ") }, built);
  globalThis.touch?.(box);
  return box;
}

/** Show the same computation in Python and as a command, ready to copy; folded if it has a title. */
export function snippet(title) {
  const parts = h("div", { class: "parts" });
  const [python, command] = ["Python", "Command"].map((name) => {
    const code = h("code"), button = h("button", { type: "button", "aria-label": `Copy ${name}`, onclick: () => copy(code.textContent, button) }, "Copy");
    return { code, figure: h("figure", {}, h("figcaption", {}, name, button), h("pre", { tabIndex: 0 }, code)) };
  });
  const box = title ? h("details", { class: "snippet more", hidden: true }, h("summary", {}, title), parts)
    : h("section", { class: "snippet", "aria-label": "The same in code" }, parts);
  box.show = (found, ...more) => {
    box.hidden = false;
    put(python.code, found.python); put(command.code, found.command);
    keep(parts, [python.figure, command.figure, ...more.filter(Boolean)]);
  };
  return box;
}

/** Return the state of a room from a link, after checking the types of its values. */
export function restored(usual, state, forms = {}) {
  const form = (x) => (x === null ? "nothing" : Array.isArray(x) ? "a list" : typeof x === "object" ? "an object" : `a ${typeof x}`);
  if (form(state) !== "an object") throw new Error(`expected an object, found ${JSON.stringify(state)}`);
  for (const [name, value] of Object.entries(state)) {
    const needed = forms[name] ?? form(usual[name]);
    if (name in usual && form(value) !== needed && !(name in forms && value === null)) throw new Error(`${name}: expected ${needed}, found ${JSON.stringify(value).slice(0, 60)}`);
  }
  return { ...usual, ...state };
}

export async function copy(text, button) {
  const before = (button.dataset.name ??= button.textContent); // a second click finds another text
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; say("Copied."); }
  catch { button.textContent = "Press Ctrl+C"; getSelection().selectAllChildren(button.closest("figure")?.querySelector("pre") ?? button); }
  setTimeout(() => { button.textContent = before; }, 1500);
}

/** A drop zone for files: `take` receives the first file, or with `multiple` all of them. */
export function drop(label, accept, take, multiple = false) {
  const given = (files) => files.length && (multiple ? take([...files]) : take(files[0]));
  const input = h("input", { type: "file", accept, multiple, onclick: () => { input.value = ""; }, onchange: () => given(input.files) });
  const box = h("label", { class: "drop" }, h("span", {}, label), input);
  box.addEventListener("dragover", (e) => { e.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (e) => {
    e.preventDefault(); box.classList.remove("over");
    given(e.dataTransfer.files);
  });
  return box;
}

/** Jobs arrive over a websocket; a reloaded page receives all of them again. */
export const jobs = new Map();
const listeners = new Set();
export function onJob(listener) { listeners.add(listener); jobs.forEach(listener); return () => listeners.delete(listener); }

export function connect() {
  const socket = new WebSocket(`ws://${location.host}/jobs`);
  socket.onmessage = (event) => {
    const job = JSON.parse(event.data);
    const before = jobs.get(job.id);
    jobs.set(job.id, job);
    if (before?.state === "running" && job.state !== "running") say(`${job.title}: ${job.state}.`);
    showJobs();
    listeners.forEach((listener) => listener(job));
  };
  socket.onopen = () => { gone = ""; jobs.clear(); showJobs(); };
  socket.onclose = async () => {
    // A server that was started anew refuses the cookie of the old one until its link is opened.
    const status = await fetch("/", { method: "HEAD" }).then((answer) => answer.status, () => 0);
    gone = status === 403 ? RESTARTED : "The studio has stopped. Run `equipoise studio` to start it again; this page keeps its content.";
    showJobs();
    setTimeout(connect, 1500);
  };
}

const SHOWN = 20; // seconds for which a finished job is shown
let fading = 0, gone = "";
function showJobs() {
  clearTimeout(fading);
  const box = document.getElementById("jobs");
  const ended = (job) => job.state !== "running";
  const age = (job) => Date.now() / 1000 - job.started - job.seconds;
  const shown = [...jobs.values()].filter((job) => !ended(job) || age(job) < SHOWN).slice(-4);
  if (shown.some(ended)) fading = setTimeout(showJobs, 1000);
  box.hidden = !shown.length && !gone;
  for (const id of notices.keys()) if (!shown.some((job) => job.id === id)) notices.delete(id);
  keep(box, [gone && h("div", { class: "job failed" }, gone), ...shown.map(notice)].filter(Boolean));
}

// A notice stays the same element while its text changes: a button that is replaced cannot be clicked.
const notices = new Map();
function notice(job) {
  if (!notices.has(job.id)) {
    const text = h("span"), button = h("button", { type: "button", onclick: () => stop(job.id) }, "Stop");
    notices.set(job.id, { text, button, box: h("div", {}, h("p", {}, h("strong", {}, job.title), " ", text), button) });
  }
  const { text, button, box } = notices.get(job.id);
  box.className = `job ${job.state}`;
  put(text, job.error || progressOf(job));
  button.hidden = job.state !== "running";
  return box;
}

/** Change the text of an element only if it differs: a selection in it stays, and nothing is announced again. */
export function put(element, text) { if (element.textContent !== (text ?? "")) element.textContent = text ?? ""; }

/** Show these elements in a box; those it has stay where they are, with their focus. */
export function keep(box, elements) {
  for (const one of [...box.children]) if (!elements.includes(one)) one.remove();
  elements.forEach((one, i) => { if (box.children[i] !== one) box.insertBefore(one, box.children[i] ?? null); });
}

export function progressOf(job) {
  const told = Object.entries(job.progress ?? {}).map(([name, value]) => name === "text" ? value : `${name.replaceAll("_", " ")} ${fmt(value)}`);
  return [job.state, ...told, `${Math.round(job.seconds)} s`].join(" · ");
}
