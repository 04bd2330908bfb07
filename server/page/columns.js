// A column: one noise seed, its lock, the text that comes for it, and whether it came again the same.

import {bytesOf, count, element, listenNumber, showNumber} from "./text.js";
import {complete} from "./stream.js";
import {TokenText} from "./tokens.js";
import {clampSeed} from "./state.js";

export class Column {
  // seed: {value, locked} of the state; changed() is called when the reader changes it, grown() when text has come.
  constructor(parent, number, seed, changed, grown) {
    const id = `noise-seed-${number}`;
    this.input = element("input", {id, type: "number", min: 0, step: 1, value: seed.value});
    this.lock = element("button", {type: "button", "aria-label": `Lock noise seed of column ${number}`,
      title: "A locked column keeps its noise seed when new noise is drawn"});
    const text = element("div", {class: "text", tabindex: 0, role: "group",
      "aria-label": `Text of column ${number}; arrow keys go through its tokens`});
    this.foot = element("div", {class: "foot"});
    this.node = element("article", {class: "column", "aria-label": `Column ${number}`},
      element("div", {class: "head"}, element("label", {for: id}, "Noise seed"), this.input, this.lock), text, this.foot);
    this.tokens = new TokenText(text, `Column ${number}`);
    this.seed = seed;
    this.grown = grown;
    this.answered = null; // the request that the text answers in full
    listenNumber(this.input, () => seed.value, (value) => { seed.value = clampSeed(value); changed(); });
    this.lock.addEventListener("click", () => { seed.locked = !seed.locked; changed(); });
    this.sync();
    parent.append(this.node);
  }

  sync() {
    showNumber(this.input, this.seed.value);
    this.lock.setAttribute("aria-pressed", this.seed.locked);
    this.lock.textContent = this.seed.locked ? "Locked" : "Lock";
  }

  // For a model whose tokens are shades of grey, line by line: the image that they make stands above them.
  showPicture([height, width]) {
    if (this.picture) return;
    this.picture = element("canvas", {width, height, role: "img", "aria-label": "The image that the tokens are"});
    this.painted = 0;
    this.node.querySelector(".text").before(this.picture);
  }

  paint() {
    if (!this.picture) return;
    const {width, height} = this.picture, context = this.picture.getContext("2d"), {tokens} = this.tokens;
    for (let i = Math.min(this.painted, tokens.length); i < Math.min(tokens.length, width * height); i++) {
      const grey = 17 * Math.min(15, Number(tokens[i].text.trim()) || 0);
      context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
      context.fillRect(i % width, Math.floor(i / width), 1, 1);
    }
    this.painted = tokens.length;
  }

  say(text, kind) { this.foot.replaceChildren(element("span", kind ? {class: kind} : {}, text)); }

  // Does the work of a request with the column marked as busy; a failure is told here and passed on.
  async busy(work, stopped) {
    this.node.classList.add("busy");
    try {
      await work();
    } catch (e) {
      if (e.name === "AbortError") this.say(stopped);
      else this.say(e.message, "failed");
      throw e;
    } finally {
      this.node.classList.remove("busy");
    }
  }

  run(request, signal) {
    this.answered = null;
    this.painted = 0;
    this.logprobs = [];
    this.tokens.clear(request.prompt);
    this.picture?.getContext("2d").clearRect(0, 0, this.picture.width, this.picture.height);
    this.say("Waiting …");
    return this.busy(async () => {
      let finish = null;
      await complete(request, signal, (choice, fingerprint) => {
        this.tokens.add(choice);
        this.paint();
        this.logprobs.push(...(choice.logprobs?.token_logprobs ?? []));
        this.fingerprint = fingerprint;
        finish = choice.finish_reason ?? finish;
        this.say(count(this.tokens.tokens.length, "token"));
        this.grown();
      });
      this.answered = JSON.stringify(request);
      const bytes = bytesOf(this.tokens.text).length;
      this.say(`${count(this.tokens.tokens.length, "token")}, ${count(bytes, "byte")}, ` +
        (finish === "stop" ? "ended by the model" : "cut at the limit"));
    }, "Stopped.");
  }

  // Asks the same again and compares.
  repeat(signal) {
    const before = bytesOf(this.tokens.text), logprobs = [];
    let text = "", fingerprint;
    return this.busy(async () => {
      await complete(JSON.parse(this.answered), signal, (choice, print) => {
        text += choice.text;
        fingerprint = print;
        logprobs.push(...(choice.logprobs?.token_logprobs ?? []));
        this.say(`Repeating: ${bytesOf(text).length} of ${before.length} bytes`);
      });
      const again = bytesOf(text);
      let at = 0;
      while (at < before.length && at < again.length && before[at] === again[at]) at++;
      const same = at === before.length && at === again.length;
      if (same && JSON.stringify(logprobs) === JSON.stringify(this.logprobs))
        this.say(`Repeated: the same ${count(at, "byte")} and ${count(logprobs.length, "log-probability").replace("ys", "ies")}.`, "same");
      else if (fingerprint !== this.fingerprint)
        this.say(`The server serves another checkpoint now: ${fingerprint}, not ${this.fingerprint}.`, "other");
      else
        this.say(same ? "Repeated: the same bytes, other log-probabilities." : `Repeated: byte ${at + 1} is another.`, "other");
    }, "Stopped while repeating.");
  }
}
