#include "server/options.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum Kind { KIND_TEXT, KIND_FLAG, KIND_INT, KIND_SECONDS } Kind;

typedef struct Option {
    const char *name, *argument;
    Kind kind;
    size_t offset;
    double low, high;
    const char *help;
} Option;

#define AT(member) offsetof(Options, member)
static const Option table[] = {
    {"--model", "DIR", KIND_TEXT, AT(model), 0, 0, "the checkpoint to serve"},
    {"--model-name", "NAME", KIND_TEXT, AT(model_name), 0, 0, "what clients call it (the folder's name)"},
    {"--host", "ADDRESS", KIND_TEXT, AT(http.host), 0, 0, "address to listen on (127.0.0.1)"},
    {"--port", "N", KIND_INT, AT(http.port), 0, 65535, "port to listen on (8080); 0: any free one"},
    {"--api-key-file", "FILE", KIND_TEXT, AT(api_key_file), 0, 0, "API keys, one a line"},
    {"--insecure", NULL, KIND_FLAG, AT(insecure), 0, 0, "listen beyond loopback without an API key"},
    {"--threads", "N", KIND_INT, AT(engine.threads), 0, 1024, "threads that compute (0: all cores)"},
    {"--max-batch", "N", KIND_INT, AT(engine.max_batch), 1, 4096, "sequences that run together (64)"},
    {"--prefill-chunk", "N", KIND_INT, AT(engine.prefill_chunk), 1, 65536,
     "prompt tokens per step at most (128), fewer beside few streams"},
    {"--max-queue", "N", KIND_INT, AT(engine.max_queue), 1, 65536, "sequences that wait (256)"},
    {"--kv-tokens", "N", KIND_INT, AT(engine.kv_tokens), 0, 1 << 30, "room of the cache (0: by batch and context)"},
    {"--kv-dtype", "f32|bf16", KIND_TEXT, AT(kv_dtype), 0, 0, "precision of the cache (as the weights)"},
    {"--kv", "expanded|compact", KIND_TEXT, AT(kv_form), 0, 0,
     "what the cache keeps (compact for mla and tpa without sas)"},
    {"--max-body", "BYTES", KIND_INT, AT(http.max_body), 1024, 1 << 28, "length of a request's body (262144)"},
    {"--max-connections", "N", KIND_INT, AT(http.max_connections), 1, 1 << 20, "open connections (12000)"},
    {"--max-json-depth", "N", KIND_INT, AT(limits.json_depth), 3, 500, "nesting of a request (16)"},
    {"--max-json-values", "N", KIND_INT, AT(limits.json_values), 16, 1 << 24, "values in a request (8192)"},
    {"--max-n", "N", KIND_INT, AT(limits.n), 1, 4096, "n and best_of (64)"},
    {"--max-prompts", "N", KIND_INT, AT(limits.prompts), 1, 4096, "prompts of a request (128)"},
    {"--max-logit-bias", "N", KIND_INT, AT(limits.logit_bias), 0, 1 << 20, "entries of logit_bias (300)"},
    {"--max-stop", "N", KIND_INT, AT(limits.stop), 1, 1024, "stop strings (16)"},
    {"--max-stop-bytes", "N", KIND_INT, AT(limits.stop_bytes), 1, 65536, "length of a stop string (256)"},
    {"--header-seconds", "S", KIND_SECONDS, AT(http.head_seconds), 0.1, 1e6, "until a request's head is there (10)"},
    {"--body-seconds", "S", KIND_SECONDS, AT(http.body_seconds), 0.1, 1e6, "until its body is there (30)"},
    {"--idle-seconds", "S", KIND_SECONDS, AT(http.idle_seconds), 0.1, 1e6, "between two requests (60)"},
    {"--write-seconds", "S", KIND_SECONDS, AT(http.stall_seconds), 0.1, 1e6, "without a byte taken by the client (30)"},
    {"--ping-seconds", "S", KIND_SECONDS, AT(http.ping_seconds), 0.1, 1e6, "of silence before a stream's ping (15)"},
    {"--queue-seconds", "S", KIND_SECONDS, AT(engine.queue_limit), 0, 1e6, "in the queue (60; 0: no limit)"},
    {"--stream-seconds", "S", KIND_SECONDS, AT(engine.stream_limit), 0, 1e6, "of one answer (600; 0: no limit)"},
    {"--drain-seconds", "S", KIND_SECONDS, AT(drain_seconds), 0, 1e6, "for running answers after SIGTERM (30)"},
    {"--probe", "URL", KIND_TEXT, AT(probe), 0, 0, "GET http://HOST:PORT/PATH: exit 0 when the answer is 200"},
    {"--version", NULL, KIND_FLAG, AT(version), 0, 0, "print the version"},
    {"--help", NULL, KIND_FLAG, AT(help), 0, 0, "print this"},
};

static const Options defaults = {
    .drain_seconds = 30,
    .engine = {.max_batch = 64, .prefill_chunk = 128, .max_queue = 256, .stream_limit = 600, .queue_limit = 60},
    .http = {.host = "127.0.0.1",
             .port = 8080,
             .listen_fd = -1,
             .max_body = 256 << 10,
             .max_connections = 12000,
             .head_seconds = 10,
             .body_seconds = 30,
             .idle_seconds = 60,
             .stall_seconds = 30,
             .ping_seconds = 15},
    .limits = {.json_depth = 16,
               .json_values = 8192,
               .n = 64,
               .prompts = 128,
               .logit_bias = 300,
               .stop = 16,
               .stop_bytes = 256},
};

static int set(Options *o, const Option *option, const char *value, Err *err) {
    char *out = (char *)o + option->offset, *end;
    if (option->kind == KIND_TEXT) {
        *(const char **)out = value;
        return 0;
    }
    double x = strtod(value, &end);
    bool integer = option->kind == KIND_INT;
    if (end == value || *end || !(x >= option->low && x <= option->high) || (integer && x != floor(x)))
        return err_set(err, "%s must be %s between %.10g and %.10g, not \"%s\"", option->name,
                       integer ? "an integer" : "a number", option->low, option->high, value);
    if (integer)
        *(int *)out = (int)x;
    else
        *(double *)out = x;
    return 0;
}

bool options_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return !strcmp(host, "localhost");
}

static int check(Options *o, Err *err) {
    if (o->help || o->version || o->probe) return 0;
    if (!o->model) return err_set(err, "--model DIR is missing");
    if (o->kv_dtype && strcmp(o->kv_dtype, "f32") && strcmp(o->kv_dtype, "bf16"))
        return err_set(err, "--kv-dtype must be f32 or bf16, not \"%s\"", o->kv_dtype);
    if (o->kv_form && strcmp(o->kv_form, "expanded") && strcmp(o->kv_form, "compact"))
        return err_set(err, "--kv must be expanded or compact, not \"%s\"", o->kv_form);
    o->limits.queue = o->engine.max_queue;
    return 0;
}

int options_check_exposure(const Options *o, Err *err) {
    if (options_is_loopback(o->http.host) || o->api_key_file || o->insecure) return 0;
    return err_set(err, "--host %s is open to others: give --api-key-file FILE, or --insecure", o->http.host);
}

int options_parse(Options *o, int argc, char **argv, Err *err) {
    *o = defaults;
    for (int i = 1; i < argc; i++) {
        const Option *option = table;
        while (option < table + COUNTOF(table) && strcmp(option->name, argv[i])) option++;
        if (option == table + COUNTOF(table)) return err_set(err, "unknown option %s", argv[i]);
        if (option->kind == KIND_FLAG) {
            *(bool *)((char *)o + option->offset) = true;
            continue;
        }
        if (++i == argc) return err_set(err, "%s needs a value: %s", option->name, option->argument);
        if (set(o, option, argv[i], err)) return -1;
    }
    return check(o, err);
}

void options_print_help(FILE *f) {
    fprintf(f, "usage: noised --model DIR [option...]\n\n");
    for (size_t i = 0; i < COUNTOF(table); i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", table[i].name, table[i].argument ? table[i].argument : "");
        fprintf(f, "  %-26s %s\n", left, table[i].help);
    }
}
