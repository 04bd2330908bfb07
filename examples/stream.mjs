// Streams an answer by fetch, as in a browser: node stream.mjs [URL]
const url = process.argv[2] ?? "http://localhost:8080";
const body = { prompt: "It was", max_tokens: 40, seed: 7, noise_seed: 1, stream: true };
const answer = await fetch(url + "/v1/completions", { method: "POST", body: JSON.stringify(body) });
if (!answer.ok) throw new Error((await answer.json()).error.message);
let rest = "";
for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + bytes).split("\n");
    rest = lines.pop(); // an event may come in pieces
    for (const line of lines.filter((l) => l.startsWith("data: {"))) {
        const event = JSON.parse(line.slice(6));
        if (event.error) throw new Error(event.error.message);
        process.stdout.write(event.choices[0].text);
    }
}
console.log();
