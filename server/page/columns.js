// A column: one noise seed, its lock, the answer that comes for it, and what can be done with that.

import {button, copy, element, enable, listenNumber, show} from "./text.js";
import {hint} from "./card.js";
import {TokenText} from "./tokens.js";
import {clampSeed} from "./state.js";

// For a model whose tokens are shades of grey, line by line: the image that they make.
export function paint(canvas, tokens) {
  const {width, height} = canvas, context = canvas.getContext("2d");
  context.clearRect(0, 0, width, height);
  for (let i = 0; i < Math.min(tokens.length, width * height); i++) {
    const grey = 17 * Math.min(15, Number(tokens[i].text.trim()) || 0);
    context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
    context.fillRect(i % width, Math.floor(i / width), 1, 1);
  }
}

export class Column {
  // does: what the page does when the reader presses here; changed(), keep(i), goOn(i), reply(i), close(i);
  // called(component) is the reader's name for it, or "".
  constructor(number, seed, does) {
    const id = `noise-seed-${number + 1}`, name = `column ${number + 1}`;
    this.input = element("input", {id, type: "number", min: 0, step: 1, value: seed.value});
    this.lock = button("", {"aria-label": `Lock noise seed of ${name}`,
      title: "A locked column keeps its noise seed when new noise is drawn"}, () => {
      seed.locked = !seed.locked;
      does.changed();
    });
    const act = (label, what, title, work) => button(label, {"aria-label": `${what} ${name}`, title}, work);
    this.keep = act("", "Keep", "Keep this seed and its text in this browser", () => does.keep(number));
    this.onward = act("Go on", "Go on with", "More tokens", () => does.goOn(number));
    this.reply = act("Reply to this", "Reply to", "Go on with the conversation from this answer", () => does.reply(number));
    const copying = act("Copy", "Copy the text of", "", (e) => copy(e.target, this.answer.text));
    this.close = act("Close", "Close", "Back to the map", () => does.close(number));
    const text = element("div", {class: "text", tabindex: 0, role: "group", dir: "auto",
      "aria-label": `Text of ${name}; arrow keys go through its tokens`});
    this.note = element("div", {class: "foot"});
    this.node = element("article", {class: "column", "aria-label": `Column ${number + 1}`},
      element("div", {class: "head"}, element("label", {for: id}, "Noise seed"), hint("noise seed"), this.input, this.lock),
      text, this.note, this.tools = element("div", {class: "tools"}, this.onward, this.reply, copying, this.keep, this.close));
    this.tokens = new TokenText(text, `Column ${number + 1}`);
    Object.assign(this, {seed, does});
    listenNumber(this.input, () => seed.value, (value) => { seed.value = clampSeed(value); does.changed(); });
  }

  // picture: [height, width] of the image that the tokens are, or null.
  follow(answer, given, picture) {
    if (picture && !this.picture) {
      const [height, width] = picture;
      this.picture = element("canvas", {width, height, role: "img", "aria-label": "The image that the tokens are"});
      this.node.querySelector(".text").before(this.picture);
    }
    this.answer = answer;
    this.tokens.follow(answer, given);
    this.draw();
  }

  draw() {
    const {answer} = this;
    if (answer.tokens.length < this.tokens.spans.length) this.tokens.follow(answer, this.tokens.given);
    this.tokens.grow();
    if (this.picture) paint(this.picture, answer.tokens);
    this.node.classList.toggle("busy", answer.busy);
    const {component, kind, note} = answer, name = component !== undefined && this.does.called(component);
    this.note.replaceChildren(element("span", kind ? {class: kind} : {}, note),
      component === undefined ? "" : `${note.endsWith(".") ? " Component" : ", component"} ${component}${name && ` “${name}”`}`);
    this.tools.hidden = !answer.tokens.length && this.close.hidden;
    enable(this.onward, !answer.busy && answer.tokens.length && (!answer.done || answer.finish === "length"));
    enable(this.reply, !answer.busy && answer.tokens.length);
  }

  // How the column stands to the state: its seed, its lock, whether the answer is of another request.
  sync(state, {kept, stale, closes}) {
    show(this.input, this.seed.value);
    this.lock.setAttribute("aria-pressed", this.seed.locked);
    this.lock.textContent = this.seed.locked ? "Locked" : "Lock";
    this.keep.setAttribute("aria-pressed", kept);
    this.keep.textContent = kept ? "★" : "☆";
    this.node.classList.toggle("stale", stale);
    this.reply.hidden = !state.chat;
    this.close.hidden = !closes;
    this.draw();
  }
}
