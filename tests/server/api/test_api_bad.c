/* Requests that must be refused: each with its status and the `param` it names, and the server lives on. */
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Bad bad[] = {
    /* not JSON, or not an object */
    {"", 400, ""},
    {"{", 400, ""},
    {"[]", 400, ""},
    {"\"prompt\"", 400, ""},
    {"{\"prompt\":\"x\"} x", 400, ""},
    {"{\"prompt\":\"x\",}", 400, ""},
    {"{'prompt':'x'}", 400, ""},
    {"{\"n\":01}", 400, ""},
    {"{\"n\":+1}", 400, ""},
    {"{\"temperature\":1e999}", 400, ""},
    {"{\"temperature\":NaN}", 400, ""},
    {"{\"n\":1,\"n\":1}", 400, ""},
    {"{\"prompt\":\"\\u0000\"}", 400, ""},
    {"{\"prompt\":\"\\ud800\"}", 400, ""},
    {"{\"prompt\":\"\xC3\"}", 400, ""},
    {"{\"prompt\":\"a\tb\"}", 400, ""},
    {"\xEF\xBB\xBF{}", 400, ""},
    /* unknown fields */
    {"{\"promt\":\"x\"}", 400, "promt"},
    {"{\"Prompt\":\"x\"}", 400, "Prompt"},
    {"{\"messages\":[]}", 400, "messages"},
    {"{\"\":1}", 400, ""},
    /* model */
    {"{\"model\":\"gpt-4\"}", 404, "model"},
    {"{\"model\":1}", 400, "model"},
    {"{\"model\":\"\"}", 404, "model"},
    /* prompt */
    {"{\"prompt\":1}", 400, "prompt"},
    {"{\"prompt\":true}", 400, "prompt"},
    {"{\"prompt\":{}}", 400, "prompt"},
    {"{\"prompt\":[]}", 400, "prompt"},
    {"{\"prompt\":[[]]}", 400, "prompt"},
    {"{\"prompt\":[\"a\",[]]}", 400, "prompt"},
    {"{\"prompt\":[[[1]]]}", 400, "prompt"},
    {"{\"prompt\":[320]}", 400, "prompt"},
    {"{\"prompt\":[-1]}", 400, "prompt"},
    {"{\"prompt\":[1.5]}", 400, "prompt"},
    {"{\"prompt\":[null]}", 400, "prompt"},
    {"{\"prompt\":[1e9]}", 400, "prompt"},
    /* counts */
    {"{\"n\":0}", 400, "n"},
    {"{\"n\":-1}", 400, "n"},
    {"{\"n\":65}", 400, "n"},
    {"{\"n\":1.5}", 400, "n"},
    {"{\"n\":\"1\"}", 400, "n"},
    {"{\"n\":[]}", 400, "n"},
    {"{\"n\":true}", 400, "n"},
    {"{\"n\":1e308}", 400, "n"},
    {"{\"n\":9007199254740993}", 400, "n"},
    {"{\"best_of\":65}", 400, "best_of"},
    {"{\"best_of\":2,\"n\":3}", 400, "best_of"},
    {"{\"best_of\":2,\"stream\":true}", 400, "best_of"},
    {"{\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"n\":60}", 400, "prompt"},
    /* lengths */
    {"{\"max_tokens\":1.5}", 400, "max_tokens"},
    {"{\"max_tokens\":\"16\"}", 400, "max_tokens"},
    {"{\"max_tokens\":2147483648}", 400, "max_tokens"},
    {"{\"max_tokens\":2147483647}", 400, "max_tokens"},
    {"{\"prompt\":[1],\"max_tokens\":513}", 400, "max_tokens"},
    {"{\"min_tokens\":17}", 400, "min_tokens"},
    {"{\"min_tokens\":-1}", 400, "min_tokens"},
    /* sampling */
    {"{\"temperature\":-0.1}", 400, "temperature"},
    {"{\"temperature\":2.01}", 400, "temperature"},
    {"{\"temperature\":\"1\"}", 400, "temperature"},
    {"{\"temperature\":{}}", 400, "temperature"},
    {"{\"top_p\":-0.1}", 400, "top_p"},
    {"{\"top_p\":1.1}", 400, "top_p"},
    {"{\"top_k\":-2}", 400, "top_k"},
    {"{\"top_k\":0.5}", 400, "top_k"},
    {"{\"min_p\":1.1}", 400, "min_p"},
    {"{\"typical_p\":0}", 400, "typical_p"},
    {"{\"typical_p\":2}", 400, "typical_p"},
    {"{\"repetition_penalty\":0}", 400, "repetition_penalty"},
    {"{\"repetition_penalty\":-1}", 400, "repetition_penalty"},
    {"{\"frequency_penalty\":2.1}", 400, "frequency_penalty"},
    {"{\"presence_penalty\":-2.1}", 400, "presence_penalty"},
    {"{\"presence_penalty\":false}", 400, "presence_penalty"},
    {"{\"logit_bias\":1}", 400, "logit_bias"},
    {"{\"logit_bias\":\"1\"}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"\":1}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"+1\":1}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"a\":\"1\"}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"a\":101}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"a\":true}}", 400, "logit_bias"},
    {"{\"logit_bias\":[1]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[1]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[1,2,3]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[320,1]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[-1,1]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[1.5,1]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[null,1]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[\"\",1]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[\"a\",-101]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[[\"a\",null]]}", 400, "logit_bias"},
    {"{\"logit_bias\":[{\"a\":1}]}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"01\":1}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"-1\":1}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"320\":1}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"99999999999999999999\":1}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"1\":101}}", 400, "logit_bias"},
    {"{\"logit_bias\":{\"1\":null}}", 400, "logit_bias"},
    /* seeds and noise */
    {"{\"seed\":9223372036854775808}", 400, "seed"},
    {"{\"seed\":0.5}", 400, "seed"},
    {"{\"seed\":\"1\"}", 400, "seed"},
    {"{\"noise_seed\":-1}", 400, "noise_seed"},
    {"{\"noise_seed\":9007199254740992}", 400, "noise_seed"},
    {"{\"noise_seed\":[1,2]}", 400, "noise_seed"},
    {"{\"noise_seed\":[]}", 400, "noise_seed"},
    {"{\"noise_seed\":[\"1\"]}", 400, "noise_seed"},
    {"{\"n\":2,\"noise_seed\":[1]}", 400, "noise_seed"},
    {"{\"best_of\":2,\"noise_seed\":[1]}", 400, "noise_seed"},
    {"{\"noise_prompt_seed\":1.5}", 400, "noise_prompt_seed"},
    {"{\"noise_scale\":-0.1}", 400, "noise_scale"},
    {"{\"noise_scale\":8.1}", 400, "noise_scale"},
    {"{\"noise_scale\":\"1\"}", 400, "noise_scale"},
    /* stop */
    {"{\"stop\":\"\"}", 400, "stop"},
    {"{\"stop\":[\"\"]}", 400, "stop"},
    {"{\"stop\":1}", 400, "stop"},
    {"{\"stop\":[1]}", 400, "stop"},
    {"{\"stop\":{}}", 400, "stop"},
    {"{\"stop\":[[\"x\"]]}", 400, "stop"},
    {"{\"stop_token_ids\":1}", 400, "stop_token_ids"},
    {"{\"stop_token_ids\":[320]}", 400, "stop_token_ids"},
    {"{\"stop_token_ids\":[\"1\"]}", 400, "stop_token_ids"},
    /* flags and the rest */
    {"{\"echo\":1}", 400, "echo"},
    {"{\"diversity\":1}", 400, "diversity"},
    {"{\"diversity\":\"true\"}", 400, "diversity"},
    {"{\"diversity\":{}}", 400, "diversity"},
    {"{\"prompt\":[[1],[2],[3]],\"n\":64,\"max_tokens\":400,\"diversity\":true}", 400, "diversity"},
    {"{\"ignore_eos\":\"true\"}", 400, "ignore_eos"},
    {"{\"return_token_ids\":0}", 400, "return_token_ids"},
    {"{\"logprobs\":-1}", 400, "logprobs"},
    {"{\"logprobs\":21}", 400, "logprobs"},
    {"{\"logprobs\":true}", 400, "logprobs"},
    {"{\"logprobs\":1.5}", 400, "logprobs"},
    {"{\"stream\":1}", 400, "stream"},
    {"{\"stream\":\"true\"}", 400, "stream"},
    {"{\"stream_options\":{\"include_usage\":true}}", 400, "stream_options"},
    {"{\"stream\":false,\"stream_options\":{}}", 400, "stream_options"},
    {"{\"stream\":true,\"stream_options\":[]}", 400, "stream_options"},
    {"{\"stream\":true,\"stream_options\":{\"include_usage\":1}}", 400, "stream_options.include_usage"},
    {"{\"stream\":true,\"stream_options\":{\"include_obfuscation\":true}}", 400, "stream_options.include_obfuscation"},
    {"{\"stream\":true,\"stream_options\":{\"usage\":true}}", 400, "stream_options.usage"},
    {"{\"suffix\":\"x\"}", 400, "suffix"},
    {"{\"suffix\":\"\"}", 400, "suffix"},
    {"{\"user\":1}", 400, "user"},
    {"{\"deadline_ms\":0}", 400, "deadline_ms"},
    {"{\"deadline_ms\":-5}", 400, "deadline_ms"},
    {"{\"deadline_ms\":\"5\"}", 400, "deadline_ms"},
};

static void check_alive(const Daemon *d) {
    Answer a = http_post(d, "/v1/completions", "{\"prompt\":\"x\",\"max_tokens\":1}");
    CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
}

TEST(api_bad_requests) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_bodies(&d, "/v1/completions", bad, COUNTOF(bad));
    check_alive(&d);
    daemon_stop(&d);
}

static const char *const numeric[] = {
    "best_of", "deadline_ms", "frequency_penalty", "logprobs",           "max_tokens", "min_p",       "min_tokens",
    "n",       "noise_scale", "noise_seed",        "noise_prompt_seed",  "seed",       "temperature", "top_k",
    "top_p",   "typical_p",   "presence_penalty",  "repetition_penalty",
};
static const char *const values[] = {
    "-9007199254740993",
    "-2147483649",
    "-1000000",
    "-65",
    "-3",
    "-2.0000001",
    "-2",
    "-1.5",
    "-1",
    "-1e-9",
    "-0",
    "0",
    "-0.0",
    "0.0",
    "1e-320",
    "1e-9",
    "0.01",
    "0.5",
    "1",
    "1.0",
    "1.0000001",
    "1.5",
    "2",
    "2.0000001",
    "3",
    "8",
    "8.0000001",
    "16",
    "17",
    "20",
    "21",
    "64",
    "65",
    "511",
    "512",
    "513",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "4294967297",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551616",
    "1e308",
    "-1e308",
    "1e999",
    "\"1\"",
    "\"\"",
    "[]",
    "[1]",
    "[[1]]",
    "{}",
    "{\"a\":1}",
    "true",
    "false",
    "null",
};

/* Whatever number a field is given, the answer is 200 or a 400 that names a field. */
TEST(api_numbers_are_used_or_refused) {
    Daemon d;
    int refused = 0, used = 0;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t f = 0; f < COUNTOF(numeric); f++)
        for (size_t v = 0; v < COUNTOF(values); v++) {
            bool length = !strcmp(numeric[f], "max_tokens");
            const char *body =
                test_text("{\"prompt\":\"x\"%s,\"%s\":%s}", length ? "" : ",\"max_tokens\":2", numeric[f], values[v]);
            Answer a = http_post(&d, "/v1/completions", body);
            CHECK_MSG(a.status == 200 || a.status == 400, "%s: %d %.200s", body, a.status, a.body);
            CHECK_MSG(a.status == 200 || !strcmp(values[v], "1e999") || json_text(a.json, "error.param"), "%s: %s",
                      body, a.body);
            CHECK_MSG(a.status == 200 || strcmp(values[v], "null"), "%s: %s", body, a.body);
            a.status == 200 ? used++ : refused++;
        }
    CHECK_MSG(refused > 600 && used > 100, "%d refused, %d used", refused, used);
    check_alive(&d);
    daemon_stop(&d);
}

/* {"prompt":"x","max_tokens":1,<front><unit, n times, separated by commas><back>} */
static char *repeat(const char *front, const char *unit, int n, const char *back) {
    size_t size = 128 + strlen(front) + strlen(back) + (size_t)n * (strlen(unit) + 1);
    char *body = xmalloc(size), *p = body;
    p += sprintf(p, "{\"prompt\":\"x\",\"max_tokens\":1,%s", front);
    for (int i = 0; i < n; i++) p += sprintf(p, "%s%s", i ? "," : "", unit);
    sprintf(p, "%s}", back);
    return body;
}

static void check_limit(const Daemon *d, char *body, int status, const char *param, const char *what) {
    Answer a = http_post(d, "/v1/completions", body);
    if (status == 200)
        CHECK_MSG(a.status == 200, "%s: %d %.200s", what, a.status, a.body);
    else
        answer_check_error(&a, status, param, what);
    free(body);
}

static char *spaces(size_t n) {
    char *body = xmalloc(n + 1);
    memset(body, ' ', n);
    memcpy(body, "{\"max_tokens\":1}", 16);
    body[n] = 0;
    return body;
}

TEST(api_limits) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int over = -1; over <= 1; over++) {
        char *stop = xmalloc(300);
        int status = over > 0 ? 400 : 200;
        check_limit(&d, repeat(test_text("\"n\":%d", 64 + over), "", 0, ""), status, "n", "n");
        check_limit(&d, repeat(test_text("\"logprobs\":%d", 20 + over), "", 0, ""), status, "logprobs", "logprobs");
        check_limit(&d, repeat("\"stop\":[", "\"zz\"", 16 + over, "]"), status, "stop", "stop strings");
        memset(stop, 'z', 300);
        stop[256 + over] = 0;
        check_limit(&d, repeat(test_text("\"stop\":\"%s\"", stop), "", 0, ""), status, "stop", "stop length");
        free(stop);
        /* The object itself, three fields and the array are values too. */
        check_limit(&d, repeat("\"stop_token_ids\":[", "1", 256 + over, "]"), status, "stop_token_ids", "stop ids");
        check_limit(&d, repeat("\"user\":[", "1", 8192 - 4 + over, "]"), 400, over > 0 ? "" : "user",
                    test_text("values %+d", over));
        char *nested = xcalloc(1, 256);
        for (int i = 0; i < 63 + over; i++) strcat(nested, "[");
        for (int i = 0; i < 63 + over; i++) strcat(nested, "]");
        check_limit(&d, repeat(test_text("\"user\":%s", nested), "", 0, ""), 400, over > 0 ? "" : "user", "depth");
        free(nested);
        check_limit(&d, spaces((size_t)(262144 + over)), over > 0 ? 413 : 200, "", "body");
        check_limit(&d, repeat(test_text("\"min_tokens\":%d", 1 + over), "", 0, ""), status, "min_tokens",
                    "min_tokens");
    }
    /* With the counts of the options lowered: prompts, logit_bias, the context. */
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-prompts 3 --max-logit-bias 1 --max-queue 9 --max-n 7"));
    static const Bad limits[] = {
        {"{\"prompt\":[\"a\",\"b\"],\"max_tokens\":1}", 200, ""},
        {"{\"prompt\":[\"a\",\"b\",\"c\"],\"max_tokens\":1}", 200, ""},
        {"{\"prompt\":[\"a\",\"b\",\"c\",\"d\"],\"max_tokens\":1}", 400, "prompt"},
        {"{\"logit_bias\":{\"1\":1},\"max_tokens\":1}", 200, ""},
        {"{\"logit_bias\":{\"1\":1,\"2\":2},\"max_tokens\":1}", 400, "logit_bias"},
        {"{\"n\":7,\"max_tokens\":1}", 200, ""},
        {"{\"n\":8,\"max_tokens\":1}", 400, "n"},
        {"{\"best_of\":8,\"max_tokens\":1}", 400, "best_of"},
        {"{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":3,\"max_tokens\":1}", 200, ""},
        {"{\"prompt\":[\"a\",\"b\"],\"n\":5,\"max_tokens\":1}", 400, "prompt"},
        {"{\"prompt\":[1],\"max_tokens\":512}", 200, ""},
        {"{\"prompt\":[1,2],\"max_tokens\":512}", 400, "max_tokens"},
    };
    check_bodies(&d, "/v1/completions", limits, COUNTOF(limits));
    daemon_stop(&d);
}

/* All results of a request together: 2^20 tokens, 2^22 alternatives. */
TEST(api_result_limits) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-n 2049 --max-queue 2049"));
    static const Bad limits[] = {
        {"{\"n\":2048,\"max_tokens\":512,\"deadline_ms\":1}", 200, ""},
        {"{\"n\":2049,\"max_tokens\":512,\"deadline_ms\":1}", 400, "max_tokens"},
        {"{\"n\":2048,\"max_tokens\":512,\"prompt_logprobs\":0,\"deadline_ms\":1}", 400, "max_tokens"},
        {"{\"n\":512,\"max_tokens\":512,\"logprobs\":16,\"deadline_ms\":1}", 200, ""},
        {"{\"n\":512,\"max_tokens\":512,\"logprobs\":17,\"deadline_ms\":1}", 400, "logprobs"},
        {"{\"n\":512,\"max_tokens\":511,\"prompt_logprobs\":17,\"deadline_ms\":1}", 400, "prompt_logprobs"},
    };
    check_bodies(&d, "/v1/completions", limits, COUNTOF(limits));
    daemon_stop(&d);
}
