// What the reader does, joined with what the other modules can.

import {byId, copy, count, enable, listenPress, show, shorten, button} from "./text.js";
import {clampSeed, drawSeeds, isMap, readFragment, requestOf, seedsOf, writeFragment} from "./state.js";
import {getJson, setKey} from "./stream.js";
import {Answer, ask} from "./answers.js";
import {Column} from "./columns.js";
import {Controls} from "./controls.js";
import {SeedMap} from "./seedmap.js";
import {BranchesPanel, forks} from "./branches.js";
import {DiversityPanel, cluster, distances} from "./diversity.js";
import {UnderPanel} from "./under.js";
import {SweepPanel} from "./sweep.js";
import {Shelf} from "./shelf.js";
import {Chat} from "./chat.js";
import {answersCsv, answersJson, save} from "./export.js";
import {drawNoise} from "./noise.js";
import {curlCommand, taskCommand} from "./curl.js";
import {isTask, showTask, taskInWords} from "./tasks.js";
import {MannersPanel} from "./manners.js";

// The figures of long texts take long: drawing them gets a tenth of the time and no more.
const REDRAW_MS = 100, REDRAW_SHARE = 0.1;

const MOST_REMEMBERED = 640;

let state = readFragment(location.hash);
let answers = [];   // one for each seed
let columns = new Map(); // those that are open, by the number of their answer
let running = null; // {abort, jobs} of what streams
let redraw = 0;     // timer
let redrawTook = 0; // ms
let model = null;   // as /v1/models tells, and /health its fingerprint
let places = 64;    // choices that the server computes together
let picture = null; // [height, width] of a model whose tokens are the pixels of an image
let opened = "";    // the address that the page was opened with
let task = null;    // the form of a model that generates no text
const remembered = new Map(); // complete answers by their request: Back shows them as they were

const open = (i) => {
  state.open = state.open.includes(i) ? state.open.filter((j) => j !== i) : [...state.open, i];
  changed();
  columns.get(i)?.node.scrollIntoView({block: "nearest"});
};
const controls = new Controls(() => state, changed);
const seedMap = new SeedMap(byId("map"), open, drawNow);
const branches = new BranchesPanel(byId("branches"), (i) => {
  if (isMap(state) && !state.open.includes(i)) open(i);
  columns.get(i)?.node.querySelector(".text").focus();
});
const diversity = new DiversityPanel(byId("diversity"));
const under = new UnderPanel(byId("under-panel"));
const sweep = new SweepPanel(byId("sweep-panel"), {
  requests: () => seedsOf(state).map((_, i) => requestOf(state, i)),
  places: () => places,
  take: (scale, i) => {
    state.noise_scale = scale;
    if (isMap(state) && !state.open.includes(i)) state.open.push(i);
    run();
  },
});
const shelf = new Shelf(byId("shelf"), {
  take: (seed) => takeSeeds([...seedsOf(state).filter((s) => s.locked).map((s) => s.value), seed]),
  compare: takeSeeds,
});
const manners = new MannersPanel(byId("manners"), {
  requests: () => seedsOf(state).map((_, i) => requestOf(state, i)),
  places: () => places,
  called,
  call: (component, name) => { shelf.call(model.id, component, name); columns.forEach((c) => c.draw()); },
  take: ({noise_seed, noise_component}, text) => {
    state.prompt = text || state.prompt;
    if (noise_seed !== undefined) return takeSeeds([noise_seed]);
    state.extra = {...state.extra, noise_component}; // undefined: the seeds draw it
    changed();
    return run();
  },
});
const chat = new Chat(byId("chat-panel"), () => { forget(); changed(); });

function called(component) { return shelf.called(model?.id, component); }

/* ---- drawing ---- */

// What all answers together say.
function drawAll() {
  const began = performance.now();
  redraw = 0;
  const begun = answers.map((_, i) => i).filter((i) => answers[i].tokens.length);
  const texts = begun.map((i) => answers[i].tokens.map((t) => t.text));
  branches.update(texts, begun, begun.map((i) => answers[i].request.noise_seed));
  drawForks(begun, texts);
  const {mean, matrix} = distances(texts);
  diversity.update(texts, mean);
  under.update(answers);
  sweep.update();
  if (isMap(state)) seedMap.update(answers, picture, branches.common, running ? null : clusters(matrix, begun), state.open);
  for (const panel of document.querySelectorAll(".several")) panel.hidden = begun.length < 2;
  byId("export").hidden = !begun.length;
  redrawTook = performance.now() - began;
}

// Columns side by side are compared with each other; a single one that is opened from the map with all.
function drawForks(begun, texts) {
  const among = columns.size > 1 ? begun.filter((i) => columns.has(i)) : begun;
  const marks = forks(among.map((i) => texts[begun.indexOf(i)]));
  columns.forEach((c, i) => c.tokens.mark(marks[among.indexOf(i)] ?? []));
}

// By the numbers of all answers.
function clusters(matrix, begun) {
  const {order, names} = cluster(matrix), others = answers.map((_, i) => i).filter((i) => !begun.includes(i));
  return {order: [...order.map((k) => begun[k]), ...others], names: answers.map((_, i) => names[begun.indexOf(i)] ?? "")};
}

function grown() {
  if (!redraw) redraw = setTimeout(drawAll, Math.max(REDRAW_MS, redrawTook / REDRAW_SHARE));
}

function drawNow() {
  clearTimeout(redraw);
  drawAll();
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
  enable(byId("repeat"), !running && answers.some((a) => a.done));
  enable(byId("redraw"), seedsOf(state).some((s) => !s.locked));
}

// After every change the address, the command and the controls say the same. The address of what was run stays in the
// browser's history: the first change after it makes another entry.
function changed() {
  const link = writeFragment(state);
  if (link !== location.hash)
    if (history.state?.ran) history.pushState(null, "", link);
    else history.replaceState(null, "", link);
  byId("curl").textContent = curlCommand(state);
  show(byId("prompt"), state.prompt);
  controls.sync();
  chat.sync(state);
  drawColumns();
  drawButtons();
}

/* ---- columns ---- */

const linkOf = (i) => writeFragment({...state, columns: 1, open: [], asked: true, seeds: [{...state.seeds[i], locked: false}]});
const does = {
  changed,
  keep: (i) => {
    const {text, fingerprint} = answers[i];
    shelf.keep({link: linkOf(i), seed: state.seeds[i].value, text, fingerprint});
    changed();
  },
  goOn,
  reply: (i) => chat.reply(answers[i]),
  close: (i) => { open(i); seedMap.thumbs[i].focus(); },
  called,
};

// As many answers as seeds, and a column for each, or for those that are opened from the map.
function drawColumns() {
  const isNow = isMap(state), had = answers.length;
  while (answers.length > state.columns) answers.pop();
  while (answers.length < state.columns) answers.push(newAnswer(answers.length));
  state.open = state.open.filter((i) => i < state.columns);
  byId("map").hidden = !isNow;
  if (had !== answers.length) grown();
  const wanted = isNow ? state.open : answers.map((_, i) => i);
  for (const [i, c] of columns) if (!wanted.includes(i)) { c.node.remove(); columns.delete(i); }
  wanted.forEach((i, at) => {
    if (!columns.has(i)) {
      columns.set(i, new Column(i, state.seeds[i], does));
      follow(i);
      grown();
    }
    const {node} = columns.get(i);
    if (byId("answers").children[at] !== node) byId("answers").insertBefore(node, byId("answers").children[at] ?? null);
    columns.get(i).sync(state, {kept: shelf.has(linkOf(i)), closes: isNow,
      stale: answers[i].tokens.length > 0 && answers[i].key !== JSON.stringify(requestOf(state, i))});
  });
}

function follow(i) { columns.get(i)?.follow(answers[i], state.chat ? "" : answers[i].request.prompt, picture); }

function newAnswer(i) {
  const answer = new Answer(requestOf(state, i), () => {
    if (answers[i] !== answer) return;
    columns.get(i)?.draw();
    grown();
  });
  return answer;
}

// Nothing that was answered is shown any more.
function forget() {
  running?.abort.abort();
  running = null;
  answers = [];
  columns.forEach((c) => c.node.remove());
  columns = new Map();
  byId("status").textContent = "";
  fail(null);
  grown();
}

/* ---- running ---- */

function remember(a) {
  if (a.done) remembered.set(a.key, new Answer(a.request).like(a));
  if (remembered.size > MOST_REMEMBERED) remembered.delete(remembered.keys().next().value);
}

// Who could not be asked anew says still what he said.
function restore(a) {
  const {note} = a, old = remembered.get(a.key);
  if (a.kind === "failed" && !a.tokens.length && old) a.like(old).say(note, "failed");
}

// work(signal) for some of the answers; gives the errors. More of it may go on side by side, and ends together.
async function together(n, doing, done, work) {
  const mine = running ??= {abort: new AbortController(), jobs: 0};
  mine.jobs++;
  fail(null);
  byId("status").textContent = `${count(n, "seed")} ${doing} …`;
  drawButtons();
  const errors = await work(mine.abort.signal);
  answers.forEach(remember);
  answers.forEach(restore);
  if (--mine.jobs || running !== mine) return; // there is more of it, or something newer
  running = null;
  const error = errors.find((e) => e.name !== "AbortError");
  if (error) failed(error);
  byId("status").textContent = error ? "" : errors.length ? "Stopped." : done;
  changed();
  drawNow();
  tellAnew();
}

// which: the numbers of the columns. known: complete answers that were here before do.
function run(which = answers.map((_, i) => i), known = false) {
  running?.abort.abort();
  running = null;
  state.asked = true;
  const link = writeFragment(state);
  if (location.hash !== link && history.state?.ran) history.pushState({ran: true}, "", link);
  else history.replaceState({ran: true}, "", link);
  shelf.drew(link, `${shorten((state.prompt || "an empty prompt").trim(), 50)}: ${count(state.columns, "seed")}, ` +
    `noise ${state.noise_scale}, temperature ${state.temperature}`);
  for (const i of which) {
    const old = known && remembered.get(JSON.stringify(requestOf(state, i)));
    answers[i] = newAnswer(i);
    if (old) answers[i].like(old);
    follow(i);
  }
  changed();
  const asked = which.map((i) => answers[i]).filter((a) => !a.done);
  return together(asked.length, "streaming", "Done.", (signal) => ask(asked, places, signal));
}

// A locked column that has answered this very request would only say the same again.
function redrawNoise() {
  drawSeeds(seedsOf(state));
  return run(answers.map((_, i) => i).filter((i) => !state.seeds[i].locked || !answers[i].done ||
    answers[i].key !== JSON.stringify(requestOf(state, i))));
}

function repeat() {
  const done = answers.filter((a) => a.done);
  const again = done.map((a) => new Answer(a.request));
  again.forEach((b, i) => {
    b.changed = () => {
      if (b.tokens.length) done[i].say(`Repeating: ${count(b.tokens.length, "token")} of ${done[i].tokens.length}`);
    };
  });
  done.forEach((a) => { a.busy = true; a.changed(); });
  return together(done.length, "repeating", "Repeated.", async (signal) => {
    const errors = await ask(again, places, signal);
    done.forEach((a, i) => {
      a.busy = false;
      if (again[i].done) a.compare(again[i]);
      else a.say(again[i].kind ? again[i].note : "Stopped while repeating.", again[i].kind);
    });
    return errors;
  });
}

// As many tokens again, or what is missing of an answer that was cut off.
function goOn(i) {
  const a = answers[i];
  if (a.done) state.seeds[i].longer += state.max_tokens;
  a.lengthen({...a.request, max_tokens: a.request.max_tokens + (a.done ? state.max_tokens : 0)});
  if (!a.tokens.length) follow(i);
  changed();
  return together(1, "streaming", "Done.", (signal) => ask([a], places, signal));
}

function takeSeeds(seeds) {
  state.columns = Math.max(1, seeds.length);
  seeds.forEach((value, i) => { state.seeds[i] = {value: clampSeed(value), locked: true, longer: 0}; });
  forget();
  changed();
  return run();
}

/* ---- controls ---- */

function listen() {
  byId("compose").addEventListener("submit", (e) => { e.preventDefault(); run(); });
  byId("prompt").addEventListener("input", (e) => { state.prompt = e.target.value; changed(); });
  listenPress(byId("stop"), () => running?.abort.abort());
  listenPress(byId("redraw"), redrawNoise);
  listenPress(byId("repeat"), repeat);
  byId("link").addEventListener("click", (e) => copy(e.target, location.href));
  byId("copy-curl").addEventListener("click", (e) => copy(e.target, byId("curl").textContent));
  byId("export").append(
    button("Save as JSON", {}, () => save("noised.json", "application/json", answersJson(model.id, answers))),
    button("Save as CSV", {}, () => save("noised.csv", "text/csv", answersCsv(model.id, answers))));
  byId("key").addEventListener("change", (e) => { setKey(e.target.value); changed(); fail(null); about(); });
  document.addEventListener("keydown", (e) => {
    if (e.isComposing) return; // is of an input method
    if (e.key === "Escape") running?.abort.abort();
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
      e.preventDefault();
      if (task) task.run();
      else run();
    }
  });
  addEventListener("hashchange", begin);
}

/* ---- beginning ---- */

// A model of images: without a link that says otherwise the first class is drawn, whole.
function drawPictures() {
  picture = model.image_size;
  if (!location.hash.includes("prompt=") || !state.asked)
    Object.assign(state, {prompt: "[0]", max_tokens: picture[0] * picture[1], repetition_penalty: 1, temperature: 0.7,
      noise_scale: 1});
  forget();
  changed();
}

// What the form of a task would ask, and its link.
function tellTask(request, route, link) {
  byId("curl").textContent = taskCommand(request, route);
  history.replaceState(null, "", "#" + link);
}

// What is served.
async function about() {
  try {
    const [models, noise, props, health] = await Promise.all(["v1/models", "noise", "props", "health"].map(getJson));
    model = {...models.data[0], fingerprint: health.system_fingerprint};
    places = props.total_slots;
    byId("model").textContent = isTask(model.task) ? `Serving ${model.id}, which ${taskInWords(model.task)}.`
      : `Serving ${model.id}, context ${model.max_model_len} tokens.`;
    document.title = `noised: ${model.id}`;
    drawNoise(byId("noise"), noise);
    if (!isTask(model.task)) {
      Object.assign(controls, {defaults: props.default_generation_settings.params, context: model.max_model_len, counted: null});
      if (model.image_size && !picture) drawPictures();
      byId("chat-panel").hidden = !!picture;
      byId("manners").parentNode.hidden = !!picture || noise.scope === "none";
      manners.serve(noise.components ?? 0);
      controls.sync();
      return true;
    }
    task ??= showTask(model, new URLSearchParams(opened.slice(1)), tellTask, (e) => (e ? failed(e) : fail(null)));
    return false;
  } catch (e) {
    failed(e);
    return false;
  }
}

// Another checkpoint may be served than the page tells of, or none was reached before.
async function tellAnew() {
  const health = await getJson("health").catch(() => null);
  if (health && health.system_fingerprint !== model?.fingerprint) about();
}

// The address says what is asked: at the beginning, when another link is opened in its place, and when the reader goes
// back.
async function begin() {
  opened = location.hash;
  document.activeElement?.blur();
  task = null;
  state = readFragment(opened);
  forget();
  const again = state.asked, known = again && seedsOf(state).every((_, i) => remembered.has(JSON.stringify(requestOf(state, i))));
  changed();
  if (known) run(undefined, true);
  if (await about() && again && !known) run(undefined, true);
}

listen();
begin();
