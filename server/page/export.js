// What the columns say, for other programs.

import {element, sum} from "./text.js";

export function answersJson(model, answers) {
  const said = answers.map((a) => ({noise_seed: a.request.noise_seed, seed: a.request.seed, request: a.request,
    system_fingerprint: a.fingerprint, finish_reason: a.finish, text: a.text, prompt_token_ids: a.promptIds, token_ids: a.ids,
    tokens: a.tokens.map((t) => t.text), token_logprobs: a.logprobs, top_logprobs: a.tokens.map((t) => t.top)}));
  return JSON.stringify({model, answers: said}, null, 1);
}

const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

// RFC 4180, an answer a row; the log-probabilities are in one cell, with spaces between.
export function answersCsv(model, answers) {
  const names = ["model", "system_fingerprint", "noise_seed", "seed", "noise_scale", "temperature", "finish_reason", "tokens",
    "logprob", "prompt", "text", "token_logprobs"];
  const rows = answers.map((a) => {
    const {prompt, messages, noise_seed, seed, noise_scale, temperature} = a.request;
    return [model, a.fingerprint, noise_seed, seed, noise_scale, temperature, a.finish, a.tokens.length, sum(a.logprobs),
      prompt ?? JSON.stringify(messages), a.text, a.logprobs.join(" ")];
  });
  return [names, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  element("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
