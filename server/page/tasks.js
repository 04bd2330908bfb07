// What the page is for a model that generates no text: a form for its task, and what it answers.

import {byId, count, element, listenNumber} from "./text.js";
import {clamp, seedField} from "./state.js";
import {postJson} from "./stream.js";

const ROUTES = {"text-classification": "v1/classify", "token-classification": "v1/tag", "fill-mask": "v1/fill-mask",
  "image-classification": "v1/classify"};
const WORDS = {"text-classification": "classifies texts", "token-classification": "labels words",
  "fill-mask": "fills in masks", "image-classification": "classifies images"};

export const isTask = (task) => task in ROUTES;
export const taskInWords = (task) => WORDS[task];

const share = (p) => `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`;

function bar(p, spread) {
  const track = element("span", {class: "track", "aria-hidden": "true"}, element("span", {class: "filled"}));
  track.firstChild.style.setProperty("inline-size", `${100 * p}%`);
  return element("td", {}, track, ` ${share(p)}${spread === undefined ? "" : ` ± ${(100 * spread).toFixed(1)}`}`);
}

function table(caption, rows) {
  return element("table", {class: "scores"}, element("caption", {}, caption), element("tbody", {}, ...rows.map(
    ([name, p, spread]) => element("tr", {}, element("th", {scope: "row"}, name), bar(p, spread)))));
}

function known(one, samples) {
  if (one.mutual_information === undefined) return "";
  return element("p", {class: "dim"}, `Under ${samples} noise seeds; knowing the seed tells ` +
    `${one.mutual_information.toFixed(4)} nats of the answer.`);
}

function drawClasses(one, labels, samples) {
  const order = one.probs.map((p, i) => i).sort((a, b) => one.probs[b] - one.probs[a]);
  return [table(`It is ${one.label}.`, order.map((i) => [labels[i], one.probs[i], one.spread?.[i]])), known(one, samples)];
}

// The text with its entities, or with the label of every word where there are none.
function drawTags(one, labels, samples, text) {
  const letters = [...text], out = element("p", {class: "tagged"}), spans = one.entities ?? one.tokens;
  let at = 0;
  for (const span of spans) {
    out.append(letters.slice(at, span.start).join(""), element("mark", {title: `${span.label}, ${share(span.score)}`},
      span.text, element("small", {}, ` ${span.label}`)));
    at = span.end;
  }
  out.append(letters.slice(at).join(""));
  return [out, element("p", {class: "dim"}, one.entities ? `Entities: ${spans.length}, in ${count(one.tokens.length, "word")}.`
    : count(one.tokens.length, "word") + ".")];
}

function drawMasks(one, labels, samples) {
  return one.masks.flatMap((mask, i) => [table(`Mask ${i + 1}`, mask.candidates.map(
    (c) => [JSON.stringify(c.token_str), c.score, c.spread])), known(mask, samples)]);
}

// A picture of the model's size, drawn with the pointer or read from a file. failed(e): an error for the reader, or null.
class Picture {
  constructor(parent, [height, width], failed) {
    this.failed = failed;
    this.canvas = element("canvas", {width, height, tabindex: 0, role: "img", "aria-label": "The picture to classify"});
    this.context = this.canvas.getContext("2d");
    const file = element("input", {id: "picture", type: "file", accept: "image/*"});
    const clear = element("button", {type: "button"}, "Clear");
    file.addEventListener("change", () => this.read(file.files[0]));
    clear.addEventListener("click", () => this.clear());
    this.canvas.addEventListener("pointermove", (e) => { if (e.buttons) this.dot(e); });
    this.canvas.addEventListener("pointerdown", (e) => this.dot(e));
    parent.append(element("p", {class: "dim"}, "Draw with the pointer, white on black, or take a file."), this.canvas,
      element("label", {for: "picture"}, "Picture"), file, clear);
    this.clear();
  }

  clear() {
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  dot(e) {
    const box = this.canvas.getBoundingClientRect(), scale = this.canvas.width / box.width;
    this.context.fillStyle = "#fff";
    this.context.beginPath();
    this.context.arc((e.clientX - box.left) * scale, (e.clientY - box.top) * scale, this.canvas.width / 18, 0, 7);
    this.context.fill();
  }

  async read(file) {
    if (!file) return;
    const picture = await createImageBitmap(file).catch(() => null);
    if (!picture) return this.failed(new Error(`${file.name} is no picture that this browser reads.`));
    this.clear();
    this.context.drawImage(picture, 0, 0, this.canvas.width, this.canvas.height);
  }

  get input() { return {image: this.canvas.toDataURL("image/png")}; }
}

const numbersAsked = [
  {name: "noise_seed", label: "Noise seed", ...seedField, start: 1},
  {name: "noise_samples", label: "Noise seeds at once", low: 1, high: 64, step: 1, start: 8},
  {name: "noise_scale", label: "Noise scale", low: 0, high: 8, step: 0.1, start: 1},
];

class TaskForm {
  // given: the fields of the link that was opened. changed(request, route, link): what would be asked, for the curl
  // command and the address; a picture is in no link. failed(e): an error for the reader.
  constructor(parent, model, given, changed, failed) {
    Object.assign(this, {model, changed, failed, route: ROUTES[model.task]});
    this.values = Object.fromEntries(numbersAsked.map((f) => [f.name, clamp(f, given.get(f.name) ?? f.start)]));
    const form = element("form", {"aria-label": "Request", novalidate: ""});
    if (model.task === "image-classification") {
      this.picture = new Picture(form, model.image_size, failed);
    } else {
      const hint = model.mask ? ` (${model.mask} is the mask)` : "";
      this.text = element("textarea", {id: "task-text", rows: 3, spellcheck: "false", dir: "auto"});
      this.text.value = given.get("text") ?? "";
      form.append(element("label", {for: "task-text"}, "Text" + hint), this.text);
      this.text.addEventListener("input", () => this.tell());
    }
    const fields = element("div", {class: "numbers"});
    for (const f of numbersAsked) {
      const {name: id, low: min, high: max, step} = f, input = element("input", {id, type: "number", min, max, step});
      input.value = this.values[id];
      listenNumber(input, () => this.values[id], (v) => {
        this.values[id] = clamp(f, v);
        this.tell();
      });
      fields.append(element("div", {}, element("label", {for: id}, f.label), input));
    }
    this.answer = element("section", {id: "task-answer", "aria-label": "Answer", "aria-live": "polite"});
    form.append(fields, element("div", {class: "actions"}, element("button", {id: "task-run", class: "primary"}, "Run")));
    form.addEventListener("submit", (e) => { e.preventDefault(); this.run(); });
    parent.replaceChildren(form, this.answer);
    this.tell();
  }

  get request() { return {input: this.picture ? this.picture.input : this.text.value, ...this.values}; }

  tell() {
    this.changed(this.request, this.route, new URLSearchParams({...(this.text && {text: this.text.value}), ...this.values}));
  }

  async run() {
    const request = this.request, {task, labels} = this.model;
    this.tell();
    this.failed(null);
    try {
      const said = await postJson(this.route, request), one = said.data[0];
      const draw = {"token-classification": drawTags, "fill-mask": drawMasks}[task] ?? drawClasses;
      this.answer.replaceChildren(...draw(one, labels, request.noise_samples, request.input));
    } catch (e) {
      this.answer.replaceChildren();
      this.failed(e);
    }
  }
}

// The parts of the page that are about generated text give way.
export function showTask(model, given, changed, failed) {
  for (const id of ["compose", "answers", "shelf"]) byId(id).hidden = true;
  byId("task").hidden = false;
  return new TaskForm(byId("task"), model, given, changed, failed);
}
