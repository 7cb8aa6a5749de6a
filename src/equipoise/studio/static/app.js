// The frame: which room is open, and the link that restores it.
import { connect, copy, h } from "/static/ui.js";

const ROOMS = [["matrix", "Matrix"], ["duel", "Duel"], ["log", "Log"], ["city", "City"], ["runs", "Runs"]];
const main = document.getElementById("main");
let open = null;

function read() {
  const [room, rest] = decodeURIComponent(location.hash.slice(1)).split(/:(.*)/s);
  let state = {};
  try { state = rest ? JSON.parse(rest) : {}; } catch { /* a link that was cut short opens the room as it is */ }
  return [ROOMS.some(([name]) => name === room) ? room : "matrix", state];
}

async function show() {
  const [room, state] = read();
  open?.leave?.();
  document.title = `${ROOMS.find(([name]) => name === room)[1]} · equipoise studio`;
  document.getElementById("rooms").replaceChildren(...ROOMS.map(([name, title]) =>
    h("a", { href: `#${name}`, "aria-current": name === room ? "page" : null }, title)));
  const root = h("div", { class: `room ${room}` });
  main.replaceChildren(root);
  const save = (kept) => history.replaceState(null, "", `#${room}:${encodeURIComponent(JSON.stringify(kept))}`);
  open = {};
  const module = await import(`/static/${room}.js`);
  if (main.firstChild === root) open.leave = await module.open(root, state, save);
}

addEventListener("hashchange", show);
document.getElementById("share").addEventListener("click", (e) => copy(location.href, e.target));
connect();
show();
