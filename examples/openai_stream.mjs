// Streams an answer through OpenAI's package (npm install openai): node openai_stream.mjs [URL]
import OpenAI from "openai";

const url = process.argv[2] ?? "http://localhost:8080";
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none" });
const model = (await client.models.list()).data[0].id;
const body = { model, prompt: "It was", max_tokens: 40, seed: 7, noise_seed: 1, stream: true };
for await (const event of await client.completions.create(body)) {
    process.stdout.write(event.choices[0].text);
}
console.log();
