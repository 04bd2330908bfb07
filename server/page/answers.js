// What the server says for one noise seed, and how it is asked: many seeds in one request.

import {bytesOf, count} from "./text.js";
import {complete, pause} from "./stream.js";

// Bytes of a request's prompts: the server takes 262,144 in all.
const MOST_BYTES = 200000;
// Seconds before a stream that broke off is asked to go on.
const AGAIN_AFTER = [1, 2, 4, 8];

export class Answer {
  // request: what would be sent for it alone. changed() is called whenever there is more to show.
  constructor(request, changed = () => {}) {
    Object.assign(this, {request, changed, busy: false});
    this.clear();
  }

  // The same as another one, which goes its own way.
  like(other) {
    const {tokens, characters, ids} = other;
    return Object.assign(this, other, {tokens: [...tokens], characters: [...characters], ids: [...ids], changed: this.changed});
  }

  get key() { return JSON.stringify(this.request); }
  get text() { return this.characters.join(""); }
  get done() { return this.finish !== null; }
  get logprobs() { return this.tokens.map((t) => t.logprob); }

  clear() {
    // characters: code points, which offsets count. ids and promptIds: the tokens' numbers.
    Object.assign(this, {tokens: [], characters: [], ids: [], promptIds: [], finish: null, fingerprint: null, begun: 0,
      note: "", kind: "", component: undefined});
  }

  say(note, kind = "") {
    Object.assign(this, {note, kind});
    this.changed();
  }

  // Takes a piece of a stream, of text or of a chat.
  take(choice, fingerprint) {
    const {tokens = [], token_logprobs = [], top_logprobs = [], text_offset = [], content} = choice.logprobs ?? {};
    // Calls of tools are shown as the model writes them.
    const said = this.request.tools ? content?.map((t) => t.token).join("") : choice.text ?? choice.delta.content;
    this.characters.push(...(said ?? ""));
    tokens.forEach((text, i) => {
      this.tokens.push({text, logprob: token_logprobs[i], top: top_logprobs[i] ?? {}, offset: text_offset[i]});
    });
    for (const t of content ?? []) {
      const top = Object.fromEntries(t.top_logprobs.map((o) => [o.token, o.logprob]));
      this.tokens.push({text: t.token, logprob: t.logprob, top, offset: this.begun});
      this.begun += t.bytes.filter((b) => (b & 0xc0) !== 0x80).length;
    }
    this.ids.push(...(choice.token_ids ?? []));
    if (!this.promptIds.length) this.promptIds = choice.prompt_token_ids ?? [];
    this.fingerprint = fingerprint;
    this.component = choice.noise_component ?? this.component;
    this.finish = choice.finish_reason ?? this.finish;
    this.say(this.done ? this.summary() : count(this.tokens.length, "token"));
  }

  summary() {
    return `${count(this.tokens.length, "token")}, ${count(bytesOf(this.text).length, "byte")}, ` +
      (this.finish === "length" ? "cut at the limit" : "ended by the model");
  }

  // The same answer with more tokens. What the server held back at the end, a beginning of a stop string or of a
  // character, it would say otherwise when it goes on: then all is asked anew.
  lengthen(request) {
    if (this.finish === "length" && (request.stop || this.text.endsWith("\uFFFD"))) this.clear();
    this.request = request;
    this.finish = null;
  }

  // Whether it came again the same, in words.
  compare(again) {
    const a = bytesOf(this.text), b = bytesOf(again.text);
    let at = 0;
    while (at < a.length && at < b.length && a[at] === b[at]) at++;
    const same = at === a.length && at === b.length;
    if (same && JSON.stringify(this.logprobs) === JSON.stringify(again.logprobs))
      this.say(`Repeated: the same ${count(at, "byte")} and ` +
        `${count(this.tokens.length, "log-probability").replace("ys", "ies")}.`, "same");
    else if (again.fingerprint !== this.fingerprint)
      this.say(`The server serves another checkpoint now: ${again.fingerprint}, not ${this.fingerprint}.`, "other");
    else
      this.say(same ? "Repeated: the same bytes, other log-probabilities." : `Repeated: byte ${at + 1} is another.`, "other");
  }
}

// Answers that differ in their noise seed alone share a request, as prompts of their own, for then all have the same
// seed for their tokens (n choices would have derived ones); a chat has no list of prompts.
function packed(list, places) {
  const packs = new Map();
  for (const a of list) {
    const {noise_seed, ...rest} = a.request, same = JSON.stringify(rest);
    const most = rest.messages ? 1 : Math.min(places, Math.max(1, Math.floor(MOST_BYTES / bytesOf(same).length)));
    const of = packs.get(same) ?? [[]];
    if (of.at(-1).length === most) of.push([]);
    of.at(-1).push(a);
    packs.set(same, of);
  }
  return [...packs.values()].flat();
}

async function askPack(pack, signal) {
  const {noise_seed, ...rest} = pack[0].request;
  const request = pack.length === 1 ? pack[0].request
    : {...rest, prompt: pack.map(() => rest.prompt), noise_seed: pack.map((a) => a.request.noise_seed)};
  pack.forEach((a) => a.say("Waiting …"));
  await complete(request, signal, (s) => pack.forEach((a) => a.say(`The server is busy; asked again in ${s} s.`)),
    (choice, fingerprint) => pack[choice.index].take(choice, fingerprint));
}

const askRest = (a, signal) => complete({...a.request, stream_from: a.tokens.length, if_fingerprint: a.fingerprint}, signal,
  (s) => a.say(`The server is busy; asked again in ${s} s.`), (choice, fingerprint) => a.take(choice, fingerprint));

async function resume(a, signal, error) {
  for (const seconds of AGAIN_AFTER) {
    a.say(`${error.message} Asked to go on in ${seconds} s.`, "failed");
    await pause(seconds, signal);
    try {
      return await askRest(a, signal);
    } catch (e) {
      if (!e.broken) throw e;
    }
  }
  throw error;
}

// Does the work of some answers; what fails is told in each that is not complete, and returned.
async function working(list, signal, work) {
  list.forEach((a) => { a.busy = true; a.changed(); });
  const errors = [];
  try {
    await work();
  } catch (e) {
    const goesOn = e.broken && list.some((a) => a.tokens.length);
    await Promise.all(list.filter((a) => !a.done).map(async (a) => {
      try {
        if (!goesOn) throw e;
        await resume(a, signal, e);
      } catch (last) {
        errors.push(last);
        if (last.name === "AbortError") a.say("Stopped.");
        else a.say(last.message, "failed");
      }
    }));
  }
  list.forEach((a) => { a.busy = false; a.changed(); });
  return errors;
}

// Asks for all, those that have begun from where they are. places: how many the server computes together.
// Returns the errors.
export async function ask(list, places, signal) {
  const fresh = list.filter((a) => !a.tokens.length), begun = list.filter((a) => a.tokens.length);
  const errors = await Promise.all([
    ...packed(fresh, places).map((pack) => working(pack, signal, () => askPack(pack, signal))),
    ...begun.map((a) => working([a], signal, () => askRest(a, signal)))]);
  return errors.flat();
}
