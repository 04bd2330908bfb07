#include "server/options.h"

#include "base/err.h"
#include "base/log.h"
#include "base/random.h"

#include <arpa/inet.h>
#include <string.h>

static const char *const dtypes[] = {"f32", "bf16", NULL};
static const char *const forms[] = {"expanded", "compact", NULL};
static const char *const log_formats[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json", NULL};

enum { TAG_FOR_CLIENTS = 1 };
#define FOR_CLIENTS .tag = TAG_FOR_CLIENTS
#define AT(member) offsetof(Options, member)
const Option options_table[OPTIONS_N] = {
    {"model", OPTION_TEXT, AT(model), "DIR", .required = true, .unless = "probe", .help = "the checkpoint to serve"},
    {"model-name", OPTION_TEXT, AT(model_name), "NAME", .help = "what clients call it", .absent = "the folder's name"},
    {"alias", OPTION_LIST, AT(aliases), "NAME", .help = "another name that requests may call it by"},
    {"any-model", OPTION_SWITCH, AT(any_model), .help = "requests may call it by any name"},
    {"chat-template", OPTION_TEXT, AT(chat_template), "NAME|FILE", .help = "how conversations are written",
     .absent = "the checkpoint's"},
    {"copy-weights", OPTION_SWITCH, AT(copy_weights), .help = "serve from a sealed copy in memory, not from the files"},
    {"scrub-seconds", OPTION_REAL, AT(scrub_seconds), "S", 0, 1e9, "600", "seconds",
     .help = "in which all weights are read again and verified; 0: never"},
    {"host", OPTION_TEXT, AT(http.host), "ADDRESS", .fallback = "127.0.0.1", FOR_CLIENTS,
     .help = "address to listen on"},
    {"port", OPTION_INT, AT(http.port), "N", 0, 65535, "8080", FOR_CLIENTS,
     .help = "port to listen on; 0: any free one"},
    {"metrics-port", OPTION_INT, AT(metrics_port), "N", 0, 65535, "0", FOR_CLIENTS,
     .help =
         "another port of the same address, which answers GET /metrics and nothing else, without an API key: whoever "
         "reaches it reads the model's name, the build, memory, load, and counts and times of all clients' requests "
         "together, but nothing of a single one; 0: none"},
    {"api-key-file", OPTION_TEXT, AT(api_key_file), "FILE", FOR_CLIENTS,
     .help = "API keys, one a line; behind a key and a space may stand its name, for the log and GET /streams"},
    {"insecure", OPTION_SWITCH, AT(insecure), FOR_CLIENTS, .help = "listen beyond loopback without an API key"},
    {"requests-per-minute", OPTION_INT, AT(quota.requests), "N", 0, 1 << 30, "0", FOR_CLIENTS,
     .help = "requests with a body of each API key; 0: any number"},
    {"tokens-per-minute", OPTION_INT, AT(quota.tokens), "N", 0, 1 << 30, "0", "tokens", FOR_CLIENTS,
     .help = "of prompts and answers, of each API key; 0: any number"},
    {"cors-origin", OPTION_LIST, AT(cors_origins), "ORIGIN", FOR_CLIENTS,
     .help = "pages of this origin may call the server from a browser; *: all may"},
    {"allowed-host", OPTION_LIST, AT(allowed_hosts), "NAME", FOR_CLIENTS,
     .help = "a name that requests may have as their Host; others than it and loopback's are refused then, on loopback "
             "always"},
    {"public-models", OPTION_SWITCH, AT(public_models), FOR_CLIENTS,
     .help = "which models are served may be asked without an API key"},
    {"lenient", OPTION_SWITCH, AT(lenient), .help = "leave fields aside that are unknown or not supported"},
    {"no-slots", OPTION_SWITCH, AT(no_slots), FOR_CLIENTS,
     .help = "GET /slots and GET /streams, which tell how busy the server is and with what, answer 501"},
    {"threads", OPTION_INT, AT(engine.threads), "N", 0, 1024, "0",
     .help = "threads that compute; 0: all cores that this process may use"},
    {"keep-threads", OPTION_SWITCH, AT(engine.keep_threads),
     .help = "all of them compute, also where fewer are faster because other programs run on their cores"},
    {"max-batch", OPTION_INT, AT(engine.max_batch), "N", 1, 4096, "64", "sequences",
     .help = "sequences that run together"},
    {"prefill-chunk", OPTION_INT, AT(engine.prefill_chunk), "N", 1, 65536, "128", "tokens",
     .help = "prompt tokens per step at most, fewer beside few streams"},
    {"guess", OPTION_SWITCH, AT(engine.guess),
     .help = "try ahead what followed when prompt or answer ran alike: the same bytes, sooner where text repeats"},
    {"draft", OPTION_TEXT, AT(draft), "DIR",
     .help = "try ahead what this small checkpoint says, which has the same tokens: the same bytes, sooner where it is "
             "right"},
    {"max-queue", OPTION_INT, AT(engine.max_queue), "N", 1, 65536, "256", "sequences",
     .help = "sequences that wait, all choices of all requests"},
    {"context", OPTION_INT, AT(context), "N", 0, 1 << 20, "0", "tokens",
     .help = "of prompt and answer at most, fewer than the model's; 0: the model's"},
    {"kv-tokens", OPTION_INT, AT(engine.kv_tokens), "N", 0, 1 << 30, "0", "tokens",
     .help = "room of the cache, which bounds the context too; 0: by batch and context"},
    {"kv-dtype", OPTION_TEXT, AT(kv_dtype), "TYPE", .choices = dtypes, .help = "precision of the cache",
     .absent = "that of the weights"},
    {"kv", OPTION_TEXT, AT(kv_form), "FORM", .choices = forms, .help = "what the cache keeps",
     .absent = "compact for mla and tpa without sas"},
    {"seed", OPTION_INT64, AT(defaults.seed), "N", 0, (double)SEED_MAX, .absent = "drawn",
     .help = "seed of completions that have no seed of their own"},
    {"noise-seed", OPTION_INT64, AT(defaults.noise_seed), "N", 0, (double)SEED_MAX, .absent = "drawn",
     .help = "noise seed of requests that have no seed of their own"},
    {"noise-scale", OPTION_REAL, AT(defaults.noise_scale), "X", 0, 8, "1",
     .help = "factor on every sigma for requests that do not say"},
    {"max-body", OPTION_INT, AT(http.max_body), "N", 0, 1 << 28, "0", "bytes",
     .help = "length of a request's body; 0: 262144, or 16 a token of the context if that is more"},
    {"max-connections", OPTION_INT, AT(http.max_connections), "N", 1, 1 << 20, "12000", FOR_CLIENTS,
     .help = "open connections"},
    {"max-connections-per-address", OPTION_INT, AT(http.max_per_address), "N", 0, 1 << 20, "0", FOR_CLIENTS,
     .help = "of them, those of one client's address; 0: any number"},
    {"max-bodies", OPTION_INT, AT(http.max_bodies), "N", 1024, 1 << 30, "134217728", "bytes", FOR_CLIENTS,
     .help = "of all bodies that are being received; as many of those that wait to be read, and of answers that wait "
             "for their readers"},
    {"max-json-depth", OPTION_INT, AT(limits.json_depth), "N", 3, 500, "64", .help = "nesting of a request"},
    {"max-json-values", OPTION_INT, AT(limits.json_values), "N", 0, 1 << 24, "0",
     .help = "values in a request; 0: 8192, or 1024 beyond the context if that is more"},
    {"max-n", OPTION_INT, AT(limits.n), "N", 1, 4096, "64", .help = "n and best_of"},
    {"max-prompts", OPTION_INT, AT(limits.prompts), "N", 1, 4096, "128", .help = "prompts of a request"},
    {"max-messages", OPTION_INT, AT(limits.messages), "N", 1, 1 << 20, "1024", .help = "messages of a chat"},
    {"max-logit-bias", OPTION_INT, AT(limits.logit_bias), "N", 0, 1 << 20, "300", .help = "entries of logit_bias"},
    {"max-stop", OPTION_INT, AT(limits.stop), "N", 1, 1024, "16", .help = "stop strings"},
    {"max-stop-bytes", OPTION_INT, AT(limits.stop_bytes), "N", 1, 65536, "256", "bytes",
     .help = "length of a stop string"},
    {"header-seconds", OPTION_REAL, AT(http.head_seconds), "S", 0.1, 1e6, "10", "seconds", FOR_CLIENTS,
     .help = "until a request's head is there"},
    {"body-seconds", OPTION_REAL, AT(http.body_seconds), "S", 0.1, 1e6, "30", "seconds", FOR_CLIENTS,
     .help = "until its body is there"},
    {"idle-seconds", OPTION_REAL, AT(http.idle_seconds), "S", 0.1, 1e6, "60", "seconds", FOR_CLIENTS,
     .help = "between two requests"},
    {"write-seconds", OPTION_REAL, AT(http.stall_seconds), "S", 0.1, 1e6, "30", "seconds", FOR_CLIENTS,
     .help = "without a byte taken by the client"},
    {"ping-seconds", OPTION_REAL, AT(http.ping_seconds), "S", 0.1, 1e6, "15", "seconds", FOR_CLIENTS,
     .help = "of silence before a stream's ping"},
    {"queue-seconds", OPTION_REAL, AT(engine.queue_limit), "S", 0, 1e6, "60", "seconds", FOR_CLIENTS,
     .help = "in the queue; 0: no limit"},
    {"stream-seconds", OPTION_REAL, AT(engine.stream_limit), "S", 0, 1e6, "600", "seconds", FOR_CLIENTS,
     .help = "of one answer; 0: no limit"},
    {"drain-seconds", OPTION_REAL, AT(drain_seconds), "S", 0, 1e6, "30", "seconds", FOR_CLIENTS,
     .help = "for running answers after SIGTERM"},
    {"log", OPTION_CHOICE, AT(log), "FORMAT", .fallback = "text", .choices = log_formats,
     .help = "lines of the log as text or as JSON objects"},
    {"access-log", OPTION_SWITCH, AT(access_log), FOR_CLIENTS, .help = "a line in the log for every request"},
    {"batch", OPTION_TEXT, AT(batch), "FILE",
     .help = "no server: answer the requests of this file, in OpenAI's format of batches"},
    {"out", OPTION_TEXT, AT(out), "FILE", .help = "with --batch: the file of their results, which is gone on with"},
    {"probe", OPTION_TEXT, AT(probe), "URL", FOR_CLIENTS,
     .help = "no server: GET http://HOST:PORT/PATH, exit 0 when the answer is 200"},
};

ApiModels options_models(const Options *o, const char *name) {
    return (ApiModels){.name = name,
                       .aliases = o->aliases.items,
                       .n_aliases = o->aliases.n,
                       .any = o->any_model,
                       .open = o->public_models};
}

int options_max_body(const Options *o, int context) {
    enum { LEAST = 256 << 10, MOST = 1 << 28, A_TOKEN = 16 };
    return o->http.max_body ? o->http.max_body : (int)MIN(MAX((int64_t)A_TOKEN * context, LEAST), MOST);
}

ApiLimits options_limits(const Options *o, int context) {
    ApiLimits limits = o->limits;
    if (!limits.json_values) limits.json_values = MAX(8192, context + 1024);
    return limits;
}

bool options_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return !strcmp(host, "localhost");
}

int options_check_batch(const CommandLine *line, Err *err) {
    Options *o = line->values;
    if (!o->batch != !o->out)
        return err_set(err, "--%s FILE goes with --%s FILE", o->batch ? "batch" : "out", o->batch ? "out" : "batch");
    for (int i = 0; o->batch && i < OPTIONS_N; i++)
        if (line->given[i] && options_table[i].tag == TAG_FOR_CLIENTS)
            return err_set(err, "--%s means nothing with --batch, which has no clients", options_table[i].name);
    if (o->batch) o->engine.queue_limit = o->engine.stream_limit = 0;
    return 0;
}

static bool is_origin(const char *text) {
    const char *authority = strstr(text, "://");
    if (!strcmp(text, "*") || !strcmp(text, "null")) return true;
    return authority && authority > text && authority[3] && !strpbrk(authority + 3, "/?# ");
}

static bool is_host_name(const char *text) {
    struct in6_addr v6;
    return !strpbrk(text, "/:[]* ") || inet_pton(AF_INET6, text, &v6) == 1;
}

int options_check_names(const Options *o, Err *err) {
    for (int i = 0; i < o->cors_origins.n; i++)
        if (!is_origin(o->cors_origins.items[i]))
            return err_set(err,
                           "--cors-origin is \"%s\", must be as browsers name one (https://app.example, without a "
                           "slash behind it) or *",
                           o->cors_origins.items[i]);
    for (int i = 0; i < o->allowed_hosts.n; i++)
        if (!is_host_name(o->allowed_hosts.items[i]))
            return err_set(err, "--allowed-host is \"%s\", must be a name or an address alone, without scheme and port",
                           o->allowed_hosts.items[i]);
    return 0;
}

int options_check_keys(const Options *o, Err *err) {
    if ((o->quota.requests || o->quota.tokens) && !o->api_key_file)
        return err_set(err, "--%s-per-minute is what an API key may use: give --api-key-file FILE",
                       o->quota.requests ? "requests" : "tokens");
    if (o->public_models && !o->api_key_file)
        return err_set(err, "--public-models is for where API keys are asked for: give --api-key-file FILE");
    if (strpbrk(o->http.host, "[]/"))
        return err_set(err, "--host is \"%s\", must be a name or an address, one of IPv6 without brackets",
                       o->http.host);
    if (options_is_loopback(o->http.host) || o->api_key_file || o->insecure) return 0;
    return err_set(err, "--host %s is open to others: give --api-key-file FILE, or --insecure", o->http.host);
}
