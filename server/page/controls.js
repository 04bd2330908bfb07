// The fields of a request: sliders, numbers, and all of them as JSON; how long the prompt is.

import {byId, count, element, listenNumber, show} from "./text.js";
import {hint} from "./card.js";
import {clampField, numbers, promptOf, samplingOf, sliders, takeSampling, unlike} from "./state.js";
import {postJson} from "./stream.js";

const PAUSE_MS = 300; // of typing, before the prompt is counted

export class Controls {
  // changed(): the state has other values. state() is the state.
  constructor(state, changed) {
    Object.assign(this, {state, changed, defaults: {}});
    const field = (f, attributes, shown) => {
      const input = element("input", {id: f.name, min: f.low, max: f.high, step: f.step, ...attributes});
      listenNumber(input, () => state()[f.name], (value) => this.set(f.name, value));
      const label = element("label", {for: f.name}, f.label);
      return element("div", {}, element("span", {class: "label"}, label, hint(f.label.toLowerCase()), shown), input);
    };
    byId("sliders").append(...sliders.map((f) =>
      field(f, {type: "range"}, element("output", {id: f.name + "-shown", for: f.name}))));
    byId("numbers").append(...numbers.map((f) => field(f, {type: "number"}, "")));
    byId("defaults").addEventListener("click", () => {
      byId("prompt").focus(); // the button is about to go
      for (const f of unlike(state(), this.defaults)) this.set(f.name, this.defaults[f.name]);
    });
    byId("fields").addEventListener("input", (e) => this.take(e.target));
  }

  set(name, value) {
    this.state()[name] = clampField(name, value);
    this.changed();
  }

  take(box) {
    let said = "";
    try {
      takeSampling(this.state(), box.value);
      this.changed();
    } catch (e) {
      said = e instanceof SyntaxError ? "This is no JSON yet." : e.message;
    }
    box.setAttribute("aria-invalid", !!said);
    byId("fields-said").textContent = said;
  }

  sync() {
    const state = this.state();
    for (const f of [...sliders, ...numbers]) show(byId(f.name), state[f.name]);
    for (const f of sliders) byId(f.name + "-shown").textContent = state[f.name];
    byId("seed").parentNode.classList.toggle("idle", state.temperature === 0);
    show(byId("fields"), JSON.stringify(samplingOf(state), null, 1));
    this.drawUnlike();
    this.countPrompt();
  }

  // What a request without these fields would be answered with is not what the page asks for.
  drawUnlike() {
    const others = unlike(this.state(), this.defaults);
    byId("unlike").hidden = !others.length;
    byId("unlike").firstChild.textContent = "A request that does not say gets " +
      others.map((f) => `${f.label.toLowerCase()} ${this.defaults[f.name]}`).join(", ") + ".";
  }

  countPrompt() {
    const state = this.state(), {prompt, max_tokens} = state;
    if (!this.context || this.counted === prompt + max_tokens) return;
    this.counted = prompt + max_tokens;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const n = await postJson("tokenize", {prompt}).then((said) => said.count, () => null);
      if (this.counted !== prompt + max_tokens) return;
      const {messages} = promptOf(state), over = n + max_tokens - this.context;
      byId("length").textContent = n === null ? "" : `${count(n, "token")}${messages ? " in the message" : ""}, and ` +
        `${max_tokens} to come, of ${this.context}${over > 1 && !messages ? `: ${over - 1} too many` : ""}.`;
    }, PAUSE_MS);
  }
}
