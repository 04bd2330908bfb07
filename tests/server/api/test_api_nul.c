/* A NUL cannot be told from the end of a string here, so no request may hold one: on every route, wherever a string can
 * stand, it is refused by the same words, and nothing is cut off. */
#include "base/err.h"
#include "server/api/schema/schema.h"
#include "tests/support/http_client.h"

#include <string.h>

#define NUL "a\\u0000b"
static const struct {
    const char *path, *body;
} cases[] = {
    {"/v1/completions", "{\"prompt\":\"" NUL "\"}"},
    {"/v1/completions", "{\"prompt\":[\"a\",\"" NUL "\"]}"},
    {"/v1/completions", "{\"prompt\":[1,\"" NUL "\"]}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"stop\":\"" NUL "\"}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"stop\":[\"" NUL "\"]}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"choice\":[\"" NUL "\"]}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":{\"" NUL "\":1}}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"logit_bias\":[[\"" NUL "\",1]]}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"user\":\"" NUL "\"}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"model\":\"tiny\\u0000\"}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"metadata\":{\"" NUL "\":\"" NUL "\"}}"},
    {"/v1/completions", "{\"prompt\":\"a\",\"stream\":true,\"stop\":\"" NUL "\"}"},
    {"/v1/completions", "{\"prompt\\u0000\":\"a\"}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"" NUL "\"}]}"},
    {"/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" NUL "\"}]}]}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\\u0000\",\"content\":\"a\"}]}"},
    {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"stop\":\"" NUL "\"}"},
    {"/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"" NUL "\"}]}"},
    {"/v1/responses", "{\"input\":\"" NUL "\"}"},
    {"/infill", "{\"input_prefix\":\"" NUL "\"}"},
    {"/completion", "{\"prompt\":\"" NUL "\"}"},
    {"/v1/embeddings", "{\"input\":\"" NUL "\"}"},
    {"/v1/rerank", "{\"query\":\"a\",\"documents\":[\"" NUL "\"]}"},
    {"/v1/classify", "{\"input\":\"" NUL "\"}"},
    {"/v1/classify", "{\"input\":[{\"image\":\"" NUL "\"}]}"},
    {"/v1/tag", "{\"input\":[\"" NUL "\"]}"},
    {"/v1/fill-mask", "{\"input\":\"" NUL "\"}"},
    {"/v1/score", "{\"prompt\":\"" NUL "\",\"continuations\":[\"a\"]}"},
    {"/v1/score", "{\"prompt\":\"a\",\"continuations\":[\"" NUL "\"]}"},
    {"/v1/replay", "{\"request\":{\"prompt\":\"" NUL "\"},\"response\":{\"choices\":[]}}"},
    {"/v1/replay",
     "{\"request\":{\"prompt\":\"a\"},\"response\":{\"choices\":[{\"index\":0,\"seed\":1,\"text\":\"" NUL "\"}]}}"},
    {"/tokenize", "{\"prompt\":\"" NUL "\"}"},
    {"/tokenize", "{\"content\":\"" NUL "\"}"},
    {"/detokenize", "{\"tokens\":[1],\"model\":\"" NUL "\"}"},
};

TEST(nul_is_refused_on_every_route) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_post(&d, cases[i].path, cases[i].body);
        answer_check_error(&a, 400, "", cases[i].body);
        CHECK_MSG(!strcmp(json_text(a.json, "error.code"), "invalid_json") &&
                      strstr(json_text(a.json, "error.message"), "NUL"),
                  "%s", a.body);
    }
    for (const Route *r = routes; r->path; r++) {
        bool tried = !r->body;
        for (size_t i = 0; i < COUNTOF(cases); i++) tried = tried || !strcmp(cases[i].path, r->path);
        CHECK_MSG(tried, "%s", r->path);
    }
    daemon_stop(&d);
}
