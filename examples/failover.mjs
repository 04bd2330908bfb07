// Goes on with a stream at the next server when one dies: node failover.mjs URL URL...
const body = { prompt: "It was", max_tokens: 400, seed: 7, noise_seed: 1, stream: true, ignore_eos: true,
    return_token_ids: true };
const urls = process.argv.length > 2 ? process.argv.slice(2) : ["http://localhost:8080"];
let got = 0, ended = false;

// An answer is a function of its request: the rest is the same anywhere, if the same checkpoint serves there.
async function goOn(url) {
    const answer = await fetch(url + "/v1/completions", { method: "POST", body: JSON.stringify({ ...body, stream_from: got }) });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    let rest = "";
    for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + bytes).split("\n");
        rest = lines.pop(); // an event may come in pieces
        for (const line of lines.filter((l) => l.startsWith("data: "))) {
            if (line === "data: [DONE]") return true;
            const event = JSON.parse(line.slice(6));
            if (event.error) throw new Error(event.error.message);
            body.if_fingerprint = event.system_fingerprint;
            got += event.choices[0].token_ids.length;
            process.stdout.write(event.choices[0].text);
        }
    }
    return false;
}

for (const url of urls) {
    try {
        ended = await goOn(url);
    } catch (e) {
        console.error(`${url}: ${e.cause ?? e}`);
    }
    if (ended) break;
    console.error(`${url} broke off after ${got} tokens`);
}
console.log();
process.exitCode = ended ? 0 : 1;
