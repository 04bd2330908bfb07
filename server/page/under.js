// The same text under other seeds: how probable each of its tokens is when another seed's noise acts.

import {button, element, percent, renew, shade, sum} from "./text.js";
import {Cells} from "./card.js";
import {postJson} from "./stream.js";

// Of each seed the log-probabilities of the answer's tokens, in one request that generates nothing.
async function underSeeds(answer, seeds) {
  const {noise_scale, noise_component} = answer.request;
  const first = answer.promptIds.length, end = first + answer.tokens.length;
  const said = await postJson("v1/completions", {prompt: [...answer.promptIds, ...answer.ids], n: seeds.length, noise_seed: seeds,
    noise_scale, noise_component, echo: true, logprobs: 0, max_tokens: 0});
  return said.choices.map((c) => c.logprobs.token_logprobs.slice(first, end));
}

export class UnderPanel {
  constructor(parent) {
    this.which = element("select", {id: "under-seed"});
    this.out = element("div", {class: "under", tabindex: 0, role: "region", "aria-label": "Probabilities under every seed"});
    this.said = element("p", {class: "dim"}, "Takes one text as it stands and asks how probable each of its tokens is under " +
      "every other noise seed. Nothing is drawn anew.");
    parent.append(element("div", {class: "bar-of"}, element("label", {for: "under-seed"}, "The text of seed"), this.which,
      button("Compare", {id: "under"}, () => this.run())), this.said, this.out);
    const square = (i) => {
      const {tokens} = this.of, at = i % tokens.length, {seed, logprobs} = this.rows[Math.floor(i / tokens.length)];
      return {seed, at, token: tokens[at], now: percent(logprobs[at])};
    };
    const squares = () => [...this.out.querySelectorAll(".squares > *")];
    new Cells(this.out, {
      count: () => squares().length,
      at: (e) => squares().indexOf(e.target.closest(".squares > *")),
      box: (i) => squares()[i].getBoundingClientRect(),
      tell: (i) => {
        const {seed, at, token, now} = square(i);
        return [element("strong", {}, JSON.stringify(token.text)),
          ` ${now} under seed ${seed}, ${percent(token.logprob)} when it was drawn, token ${at + 1}`];
      },
      words: (i) => `${square(i).token.text} ${square(i).now} under seed ${square(i).seed}`,
    });
  }

  // The answers that can be asked for.
  update(answers) {
    this.answers = answers.filter((a) => a.done && a.tokens.length);
    if (this.of && !answers.includes(this.of)) this.out.replaceChildren();
    const chosen = this.which.value;
    renew(this.which, ...this.answers.map((a, i) => element("option", {value: i}, String(a.request.noise_seed))));
    if (chosen && chosen < this.answers.length) this.which.value = chosen;
  }

  async run() {
    const answer = this.answers[this.which.value];
    if (!answer) return;
    const own = answer.request.noise_seed, seeds = [...new Set(this.answers.map((a) => a.request.noise_seed))];
    this.said.textContent = "Asking …";
    try {
      this.draw(answer, own, seeds, await underSeeds(answer, seeds));
    } catch (e) {
      this.said.textContent = e.message;
    }
  }

  draw(answer, own, seeds, table) {
    const rows = this.rows = seeds.map((seed, i) => ({seed, logprobs: table[i], total: sum(table[i])}));
    this.of = answer;
    const mine = rows.find((r) => r.seed === own);
    rows.sort((a, b) => (b.seed === own) - (a.seed === own) || b.total - a.total);
    const same = JSON.stringify(mine.logprobs) === JSON.stringify(answer.logprobs);
    this.said.textContent = "A square a token, the more probable the stronger; nats of the whole text at the right. " +
      `Seed ${own}'s own row has ` + (same ? "the very bits that it was drawn with." : "other figures than it was drawn with.");
    const drawn = rows.map((r) => element("tr", r === mine ? {class: "own"} : {}, element("th", {scope: "row"}, String(r.seed)),
      element("td", {}, this.row(r)), element("td", {}, r.total.toFixed(1))));
    this.out.replaceChildren(element("table", {},
      element("caption", {class: "unseen"}, `Log-probability of seed ${own}'s text under every seed`),
      element("tbody", {}, ...drawn)));
  }

  row({seed, logprobs}) {
    return element("div", {class: "squares", role: "img", "aria-label": `Seed ${seed}, token by token`},
      ...logprobs.map((l) => element("span", {class: shade(Math.exp(l))})));
  }
}
