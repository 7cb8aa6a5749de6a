// The frame: shows one room (a page of the studio) and keeps the link that restores it.
import { connect, copy, h } from "/static/ui.js";
import * as city from "/static/city.js";
import * as duel from "/static/duel.js";
import * as log from "/static/log.js";
import * as matrix from "/static/matrix.js";
import * as runs from "/static/runs.js";

const ROOMS = [["matrix", "Matrix"], ["duel", "Duel"], ["log", "Log"], ["city", "City"], ["runs", "Runs"]];
const MODULES = { city, duel, log, matrix, runs };
const main = document.getElementById("main");
const left = {}; // room -> link that restores its last state
let open = null, here = ""; // the open room, and its part of the address
// Returning to a room restores its state; a click on the current room resets it.
const doors = ROOMS.map(([name, title]) => h("a", { "data-room": name, href: `#${name}`, onclick: (e) => {
  if (read()[0] !== name && left[name]) { e.preventDefault(); location.hash = left[name]; } } }, title));
document.getElementById("rooms").append(...doors);

/** Return the room in the address and a function that reads its state. */
function read() {
  const [name, rest] = location.hash.slice(1).split(/(?::|%3A)(.*)/s);
  const room = ROOMS.some(([known]) => known === name) ? name : "matrix";
  const state = () => {
    try { return rest ? JSON.parse(decodeURIComponent(rest)) : {}; }
    catch { throw new Error("it is damaged or incomplete."); }
  };
  return [room, state];
}

async function show() {
  const [room, state] = read();
  here = location.hash;
  open?.leave?.();
  document.title = `${ROOMS.find(([name]) => name === room)[1]} · equipoise studio`;
  for (const link of doors) link.dataset.room === room ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  const root = h("div", { class: `room ${room}` });
  main.replaceChildren(root);
  const save = (kept) => {
    // The user left the room before the answer arrived, perhaps so recently that `show` has not run.
    if (main.firstChild !== root || location.hash !== here) return;
    left[room] = `#${room}:${encodeURIComponent(JSON.stringify(kept))}`;
    history.replaceState(null, "", left[room]);
    here = location.hash;
  };
  open = {};
  try {
    const leave = await MODULES[room].open(root, state(), save);
    if (main.firstChild === root) open.leave = leave;
    else leave?.();
  } catch (error) {
    const linked = location.hash.length > room.length + 1 && !error.unreachable;
    root.replaceChildren(h("div", { class: "error", role: "alert" },
      h("p", {}, linked ? `This link cannot be opened: ${error.message}` : error.message),
      error.unreachable ? h("button", { type: "button", onclick: show }, "Try again")
        : h("button", { type: "button", onclick: () => { history.replaceState(null, "", `#${room}`); show(); } }, "Reset this page")));
  }
}

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); }); // the address is the room's
document.getElementById("share").addEventListener("click", (e) => copy(location.href, e.target));
connect();
show();
