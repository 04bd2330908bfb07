// What the reader does, joined with what the other modules can.

import {byId, count, element, enable, listenNumber, listenPress, showNumber} from "./text.js";
import {clampField, drawSeed, numbers, readFragment, requestOf, sliders, unlike, writeFragment} from "./state.js";
import {getJson, setKey} from "./stream.js";
import {DiversityPanel, differences} from "./diversity.js";
import {Column} from "./columns.js";
import {drawNoise} from "./noise.js";
import {curlCommand, taskCommand} from "./curl.js";
import {isTask, showTask, taskInWords} from "./tasks.js";

// The figures of long texts take long: drawing them gets a tenth of the time and no more.
const REDRAW_MS = 100, REDRAW_SHARE = 0.1;

let state = readFragment(location.hash);
let columns = [];
let running = null; // AbortController of what streams
let redraw = 0;     // timer
let redrawTook = 0; // ms
let picture = null; // [height, width] of a model whose tokens are the pixels of an image
let defaults = {};  // what acts where a request does not name a field
let task = null;    // the form of a model that generates no text
const diversity = new DiversityPanel(byId("diversity"));

/* ---- drawing ---- */

function drawDifferences() {
  const began = performance.now();
  redraw = 0;
  const words = columns.map((c) => c.tokens.words());
  const shares = differences(words.map((list) => list.map((w) => w.text)));
  columns.forEach((c, i) => c.tokens.mark(words[i], shares[i]));
  diversity.update(columns.map((c) => c.tokens.tokens.map((t) => t.text)));
  redrawTook = performance.now() - began;
}

function grown() {
  if (!redraw) redraw = setTimeout(drawDifferences, Math.max(REDRAW_MS, redrawTook / REDRAW_SHARE));
}

function drawNow() {
  clearTimeout(redraw);
  drawDifferences();
}

function fail(message) {
  byId("error").textContent = message ?? "";
  byId("error").hidden = !message;
}

function failed(e) {
  if (e.name === "AbortError") return;
  fail(e.message);
  if (e.status !== 401) return;
  byId("access").open = true;
  byId("key").focus();
}

function drawButtons() {
  enable(byId("stop"), running);
  enable(byId("repeat"), !running && columns.some((c) => c.answered));
  enable(byId("redraw"), !state.seeds.slice(0, state.columns).every((s) => s.locked));
}

// What a request without these fields would be answered with is not what the page asks for.
function drawUnlike() {
  const others = unlike(state, defaults);
  byId("unlike").hidden = !others.length;
  byId("unlike").firstChild.textContent = "A request that does not say gets " +
    others.map((f) => `${f.label.toLowerCase()} ${defaults[f.name]}`).join(", ") + ".";
}

// After every change: the address, the command and the controls say the same.
function changed() {
  history.replaceState(null, "", writeFragment(state));
  byId("curl").textContent = curlCommand(state);
  for (const f of [...sliders, ...numbers]) {
    showNumber(byId(f.name), state[f.name]);
    const shown = byId(f.name + "-shown");
    if (shown) shown.textContent = state[f.name];
  }
  if (byId("prompt").value !== state.prompt) byId("prompt").value = state.prompt;
  drawUnlike();
  columns.forEach((c) => c.sync());
  drawButtons();
}

function drawColumns() {
  while (columns.length > state.columns) columns.pop().node.remove();
  while (columns.length < state.columns)
    columns.push(new Column(byId("answers"), columns.length + 1, state.seeds[columns.length], changed, grown));
  if (picture) columns.forEach((c) => c.showPicture(picture));
}

// A model of images: without a link that says otherwise the first class is drawn, whole.
function drawPictures(model) {
  picture = model.image_size;
  if (!location.hash.includes("prompt=") || !state.asked)
    Object.assign(state, {prompt: "[0]", max_tokens: picture[0] * picture[1], repetition_penalty: 1, temperature: 0.7,
      noise_scale: 1});
  drawColumns();
  changed();
}

/* ---- running ---- */

// work(column, signal) for each of them, side by side.
async function together(list, doing, done, work) {
  running?.abort();
  const mine = running = new AbortController();
  fail(null);
  byId("status").textContent = `${count(list.length, "column")} ${doing} …`;
  drawButtons();
  const results = await Promise.allSettled(list.map((c) => work(c, mine.signal)));
  if (running !== mine) return; // something newer has begun
  running = null;
  const reasons = results.filter((r) => r.status === "rejected").map((r) => r.reason);
  const error = reasons.find((e) => e.name !== "AbortError");
  if (error) failed(error);
  byId("status").textContent = error ? "" : reasons.length ? "Stopped." : done;
  drawNow();
  drawButtons();
}

function run(list = columns) {
  state.asked = true;
  changed();
  diversity.clear();
  return together(list, "streaming", "Done. Words that other columns lack stand out.",
    (c, signal) => c.run(requestOf(state, columns.indexOf(c)), signal));
}

// A locked column that has answered this very request would only say the same again.
function redrawNoise() {
  columns.forEach((c) => { if (!c.seed.locked) c.seed.value = drawSeed(); });
  return run(columns.filter((c, i) => !c.seed.locked || c.answered !== JSON.stringify(requestOf(state, i))));
}

function repeat() {
  return together(columns.filter((c) => c.answered), "repeating", "Repeated.", (c, signal) => c.repeat(signal));
}

/* ---- controls ---- */

function set(name, value) {
  state[name] = clampField(name, value);
  drawColumns();
  changed();
  grown();
}

function makeControls() {
  for (const f of sliders) {
    const input = element("input", {id: f.name, type: "range", min: f.low, max: f.high, step: f.step});
    listenNumber(input, () => state[f.name], (value) => set(f.name, value));
    byId("sliders").append(element("div", {}, element("label", {for: f.name}, f.label,
      element("output", {id: f.name + "-shown", for: f.name})), input));
  }
  for (const f of numbers) {
    const input = element("input", {id: f.name, type: "number", min: f.low, max: f.high, step: f.step});
    listenNumber(input, () => state[f.name], (value) => set(f.name, value));
    byId("numbers").append(element("div", {}, element("label", {for: f.name}, f.label), input));
  }
}

async function copy(button, text) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

function listen() {
  byId("compose").addEventListener("submit", (e) => { e.preventDefault(); run(); });
  byId("prompt").addEventListener("input", (e) => { state.prompt = e.target.value; changed(); });
  listenPress(byId("stop"), () => running?.abort());
  listenPress(byId("redraw"), redrawNoise);
  listenPress(byId("repeat"), repeat);
  byId("defaults").addEventListener("click", () => {
    byId("prompt").focus(); // the button is about to go
    for (const f of unlike(state, defaults)) set(f.name, defaults[f.name]);
  });
  byId("link").addEventListener("click", (e) => copy(e.target, location.href));
  byId("copy-curl").addEventListener("click", (e) => copy(e.target, byId("curl").textContent));
  byId("key").addEventListener("change", (e) => { setKey(e.target.value); changed(); about(); });
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") running?.abort();
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
      e.preventDefault();
      if (task) task.run();
      else run();
    }
  });
  addEventListener("hashchange", open);
}

/* ---- beginning ---- */

// What is served.
async function about() {
  try {
    const [models, noise, props] = await Promise.all(["v1/models", "noise", "props"].map(getJson));
    defaults = props.default_generation_settings.params;
    const model = models.data[0];
    byId("model").textContent = isTask(model.task) ? `Serving ${model.id}, which ${taskInWords(model.task)}.`
      : `Serving ${model.id}, context ${model.max_model_len} tokens.`;
    document.title = `noised: ${model.id}`;
    drawNoise(byId("noise"), noise);
    drawUnlike();
    fail(null);
    if (!isTask(model.task) && model.image_size && !picture) drawPictures(model);
    if (!isTask(model.task)) return true;
    task ??= showTask(model, (request, route) => { byId("curl").textContent = taskCommand(request, route); },
      (e) => (e ? failed(e) : fail(null)));
    task.tell();
    return false;
  } catch (e) {
    failed(e);
    return false;
  }
}

// The address says what is asked, at the beginning and when another link is opened in its place.
async function open() {
  running?.abort();
  document.activeElement?.blur();
  state = readFragment(location.hash);
  while (columns.length) columns.pop().node.remove();
  drawColumns();
  const again = state.asked;
  changed();
  if (await about() && again) run();
}

makeControls();
listen();
open();
