/* options: the command line of noised. */
#ifndef NOISED_SERVER_OPTIONS_H
#define NOISED_SERVER_OPTIONS_H

#include "base/err.h"
#include "base/options/options.h"
#include "server/api/context.h"
#include "server/engine/engine.h"
#include "server/http/http.h"
#include "server/quota.h"

typedef struct Options {
    const char *model, *model_name; /* model_name NULL: the folder's name */
    OptionList aliases, cors_origins, allowed_hosts;
    bool any_model, lenient, no_slots, public_models;
    const char *draft;         /* a checkpoint; NULL: none */
    const char *chat_template; /* a name or a file; NULL: the checkpoint's */
    const char *api_key_file, *kv_dtype, *kv_form, *probe;
    const char *batch, *out; /* files; NULL: it serves */
    int log;                 /* LogFormat */
    bool access_log;
    bool insecure;
    int metrics_port;     /* of /metrics alone, without a key; 0: none */
    int metrics_fd;       /* its socket, once there is one */
    int context;          /* 0: the model's */
    bool copy_weights;    /* into sealed memory */
    double scrub_seconds; /* in which all weights are read again; 0: never */
    double drain_seconds;
    EngineOptions engine;
    HttpOptions http;
    QuotaLimits quota;
    ApiLimits limits;
    ApiDefaults defaults;
} Options;

enum { OPTIONS_N = 58 };
extern const Option options_table[OPTIONS_N];

/* --batch and --out go together, without what is for clients and their sockets; nobody who waits gives up. */
int options_check_batch(const CommandLine *line, Err *err);

/* What browsers say of themselves can be one of --cors-origin and --allowed-host: others would never match. */
int options_check_names(const Options *o, Err *err);

/* Others may reach the server with an API key or by the operator's word only, and what is said of keys needs some.
 * After http.host and api_key_file are final. */
int options_check_keys(const Options *o, Err *err);

/* The names that requests may use; borrows both. */
ApiModels options_models(const Options *o, const char *name);

/* What the options leave to the checkpoint: a prompt as long as its context fits into a request, as text and as ids. */
int options_max_body(const Options *o, int context);
ApiLimits options_limits(const Options *o, int context);

/* 127.0.0.0/8, ::1 and the name localhost. */
bool options_is_loopback(const char *host);

#endif
