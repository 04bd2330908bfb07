/* Requests made out of /openapi.json alone, by chance with a seed: what it allows is never an error of the server nor
 * an unknown field, what it forbids is a 400 that names the field, and every answer is as it says. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"
#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Generator {
    const Daemon *daemon;
    const cJSON *document;
    uint64_t state;
    /* ---- the route ---- */
    const char *path;
    const cJSON *operation, *request; /* its schema */
    int answered;                     /* with 200 */
} Generator;

/* splitmix64 */
static int below(Generator *g, int n) {
    uint64_t z = g->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

static const cJSON *get(const cJSON *object, const char *key) { return cJSON_GetObjectItemCaseSensitive(object, key); }

static double number_of(const cJSON *schema, const char *key, double otherwise) {
    return get(schema, key) ? get(schema, key)->valuedouble : otherwise;
}

/* ---- what a schema allows ---- */

static cJSON *valid(Generator *g, const cJSON *schema);

static cJSON *valid_integer(Generator *g, const cJSON *s) {
    static const char *const wide[] = {"0", "-1", "7", "9223372036854775807", "-9223372036854775808"};
    if (!get(s, "minimum")) return cJSON_CreateRaw(wide[below(g, COUNTOF(wide))]);
    double low = number_of(s, "minimum", 0), high = number_of(s, "maximum", 0);
    const double values[] = {low, high, MIN(low + 1, high), MIN(low + below(g, 20), high)};
    return cJSON_CreateNumber(values[below(g, COUNTOF(values))]);
}

static cJSON *valid_number(Generator *g, const cJSON *s) {
    double low = number_of(s, "minimum", 0), high = number_of(s, "maximum", 1);
    const double values[] = {low, high, low + (high - low) * (1 + below(g, 99)) / 100};
    return cJSON_CreateNumber(values[below(g, COUNTOF(values))]);
}

static cJSON *text_of(size_t n) {
    char *text = xcalloc(1, n + 1);
    memset(text, 'x', n);
    cJSON *string = cJSON_CreateString(text);
    free(text);
    return string;
}

static cJSON *valid_string(Generator *g, const cJSON *s) {
    static const char *const texts[] = {"a",     "", "The river", "na\xC3\xAFve \xF0\x9F\x8C\x8A", "<|endoftext|>",
                                        "\"\\\n"};
    if (get(s, "maxLength") && below(g, 2)) return text_of((size_t)number_of(s, "maxLength", 0));
    const char *text = texts[below(g, COUNTOF(texts))];
    size_t n = strlen(text);
    bool fits = n >= number_of(s, "minLength", 0) && n <= number_of(s, "maxLength", INFINITY);
    return cJSON_CreateString(fits ? text : "b");
}

static int valid_size(Generator *g, const cJSON *s, const char *least, const char *most) {
    int low = (int)number_of(s, least, 0), high = (int)fmin(number_of(s, most, low + 3), low + 8);
    return low + below(g, high - low + 1);
}

static cJSON *valid_object(Generator *g, const cJSON *s) {
    cJSON *object = cJSON_CreateObject();
    const cJSON *properties = get(s, "properties"), *property, *name;
    cJSON_ArrayForEach(property, properties) {
        bool required = false;
        cJSON_ArrayForEach(name, get(s, "required")) required |= !strcmp(name->valuestring, property->string);
        if (required || !below(g, 2)) cJSON_AddItemToObject(object, property->string, valid(g, property));
    }
    int n = properties ? 0 : valid_size(g, s, "minProperties", "maxProperties");
    for (int i = 0; i < n; i++) { /* keys that are token ids too */
        cJSON_AddItemToObject(object, test_text("%d", i * 7), valid(g, get(s, "additionalProperties")));
    }
    return object;
}

static cJSON *valid_type(Generator *g, const char *type, const cJSON *s) {
    if (!strcmp(type, "integer")) return valid_integer(g, s);
    if (!strcmp(type, "number")) return valid_number(g, s);
    if (!strcmp(type, "string")) return valid_string(g, s);
    if (!strcmp(type, "boolean")) return cJSON_CreateBool(below(g, 2));
    if (!strcmp(type, "object")) return valid_object(g, s);
    if (!strcmp(type, "null")) return cJSON_CreateNull();
    cJSON *array = cJSON_CreateArray();
    int n = valid_size(g, s, "minItems", "maxItems");
    for (int i = 0; i < n; i++) cJSON_AddItemToArray(array, valid(g, get(s, "items")));
    return array;
}

static const cJSON *pick(Generator *g, const cJSON *array) {
    return cJSON_GetArrayItem(array, below(g, cJSON_GetArraySize(array)));
}

static cJSON *valid(Generator *g, const cJSON *schema) {
    static const char *const anything[] = {"null", "true", "1", "\"x\"", "[]", "{}"};
    const cJSON *s = schema_resolve(g->document, schema), *types = get(s, "type");
    if (get(s, "const")) return cJSON_Duplicate(get(s, "const"), true);
    if (get(s, "enum")) return cJSON_Duplicate(pick(g, get(s, "enum")), true);
    if (get(s, "anyOf")) return valid(g, pick(g, get(s, "anyOf")));
    if (!types) return cJSON_Parse(anything[below(g, COUNTOF(anything))]);
    return valid_type(g, cJSON_IsString(types) ? types->valuestring : pick(g, types)->valuestring, s);
}

/* ---- what it forbids ---- */

typedef struct Values {
    cJSON *of[64];
    int n;
} Values;

static void values_free(Values *v) {
    for (int i = 0; i < v->n; i++) cJSON_Delete(v->of[i]);
    v->n = 0;
}

/* Keeps the value if the schema of the field forbids it. */
static void offer(const Generator *g, const cJSON *field, Values *v, cJSON *value) {
    char why[256];
    if (v->n < (int)COUNTOF(v->of) && !schema_check(g->document, field, value, why))
        v->of[v->n++] = value;
    else
        cJSON_Delete(value);
}

/* One beyond every bound of s, which is the field's schema or an alternative of it. */
static void offer_beyond(Generator *g, const cJSON *field, const cJSON *schema, Values *v) {
    const cJSON *s = schema_resolve(g->document, schema), *alternative;
    cJSON_ArrayForEach(alternative, get(s, "anyOf")) offer_beyond(g, field, alternative, v);
    if (get(s, "minimum")) offer(g, field, v, cJSON_CreateNumber(number_of(s, "minimum", 0) - 1));
    if (number_of(s, "maximum", INFINITY) < 1e15) /* cJSON prints 15 digits */
        offer(g, field, v, cJSON_CreateNumber(number_of(s, "maximum", 0) + 1));
    if (get(s, "maxLength")) offer(g, field, v, text_of((size_t)number_of(s, "maxLength", 0) + 1));
    if (get(s, "maxItems")) {
        cJSON *array = cJSON_CreateArray();
        for (int i = 0; i <= number_of(s, "maxItems", 0); i++) cJSON_AddItemToArray(array, valid(g, get(s, "items")));
        offer(g, field, v, array);
    }
    if (get(s, "maxProperties")) {
        cJSON *object = cJSON_CreateObject();
        for (int i = 0; i <= number_of(s, "maxProperties", 0); i++) {
            cJSON_AddItemToObject(object, test_text("%d", i), valid(g, get(s, "additionalProperties")));
        }
        offer(g, field, v, object);
    }
}

static void forbidden(Generator *g, const cJSON *field, Values *v) {
    static const char *const literals[] = {
        "true", "false",     "0",    "-1",   "1.5",     "1e300",     "-1e300",        "\"x\"",
        "\"\"", "\"1\"",     "[]",   "[[]]", "[null]",  "[1,\"x\"]", "[true]",        "[1e9]",
        "{}",   "{\"x\":1}", "[{}]", "[-1]", "[[1.5]]", "[\"\"]",    "{\"x\":\"y\"}", "{\"1\":true}"};
    v->n = 0;
    offer_beyond(g, field, field, v);
    for (size_t i = 0; i < COUNTOF(literals); i++) offer(g, field, v, cJSON_Parse(literals[i]));
}

/* ---- requests ---- */

static const cJSON *answer_schema(const Generator *g, const char *status, const char *media) {
    const cJSON *response = schema_resolve(g->document, get(json_at(g->operation, "responses"), status));
    return json_at(get(get(response, "content"), media), "schema");
}

/* Without the lines that name events, which only one route's streams have. */
static char *without_names(const char *stream) {
    Buffer b = {0};
    for (const char *line = stream; *line;) {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n';
        if (strncmp(line, "event: ", 7) != 0) buffer_append(&b, line, n);
        line += n;
    }
    buffer_append(&b, "", 1);
    return b.data;
}

static void check_stream(const Generator *g, const Answer *a, const char *body) {
    char why[256];
    const cJSON *event = answer_schema(g, "200", "text/event-stream"),
                *error = answer_schema(g, "4XX", "application/json");
    bool named = !strcmp(g->path, "/v1/responses");
    char *stream = named ? without_names(a->body) : xstrdup(a->body);
    Events events = events_parse(stream);
    free(stream);
    bool dialect = text_is_in(g->path, (const char *const[]){"/completion", "/infill", "/v1/responses",
                                                             NULL}); /* whose last event says that it is the last */
    CHECK_MSG(events.done == !dialect && !events.malformed, "%s %s", g->path, body);
    for (int i = 0; i < events.n; i++) {
        bool bad = json_at(events.data[i], "error") != NULL;
        CHECK_MSG(schema_check(g->document, bad ? error : event, events.data[i], why), "%s %s: %s", g->path, body, why);
    }
    events_free(&events);
}

/* Sends it. The answer has a status and the form of it. */
static Answer ask(Generator *g, const cJSON *request) {
    char why[256], *body = cJSON_PrintUnformatted(request);
    Answer a = http_post(g->daemon, g->path, body);
    CHECK_MSG(a.status == 200 || a.status == 400 || a.status == 409, "%s %s: %d %s", g->path, body, a.status, a.body);
    const cJSON *schema = answer_schema(g, a.status == 200 ? "200" : "4XX", "application/json");
    if (a.json)
        CHECK_MSG(!schema || schema_check(g->document, schema, a.json, why), "%s %s: %s\n%s", g->path, body, why,
                  a.body);
    else
        check_stream(g, &a, body);
    g->answered += a.status == 200;
    free(body);
    return a;
}

/* Whether the error is about this field or something inside it. */
static bool blames(const Answer *a, const char *field) {
    const char *param = json_text(a->json, "error.param");
    size_t n = strlen(field);
    return param && !strncmp(param, field, n) && !(param[n] && param[n] != '.' && param[n] != '[');
}

static bool blames_any(const Answer *a, const cJSON *fields) {
    const cJSON *field;
    cJSON_ArrayForEach(field, fields) if (blames(a, field->string)) return true;
    return false;
}

/* What the schema allows is an answer, or breaks a rule between fields and names one. */
static void check_allowed(Generator *g, const cJSON *request) {
    Answer a = ask(g, request);
    char *body = cJSON_PrintUnformatted(request);
    const char *message = json_text(a.json, "error.message");
    bool known = !message || !strstr(message, "unknown field");
    CHECK_MSG(a.status == 200 || (known && blames_any(&a, get(g->request, "properties"))), "%s %s: %s", g->path, body,
              a.body);
    free(body);
}

/* What it forbids in one of `wrong` is an error that names it. */
static void check_forbidden(Generator *g, const cJSON *request, const cJSON *wrong) {
    Answer a = ask(g, request);
    char *body = cJSON_PrintUnformatted(request);
    CHECK_MSG((a.status == 400 || a.status == 409) && blames_any(&a, wrong), "%s %s: %d %s", g->path, body, a.status,
              a.body);
    free(body);
}

static void set(cJSON *request, const char *name, cJSON *value) {
    cJSON_DeleteItemFromObjectCaseSensitive(request, name);
    cJSON_AddItemToObject(request, name, value);
}

/* With the fields that must be there. null is valid, and no more there than absent. */
static void add_required(Generator *g, cJSON *request, const cJSON *names) {
    const cJSON *name, *properties = get(g->request, "properties");
    cJSON_ArrayForEach(name, names) for (int tries = 0; tries < 100; tries++) {
        set(request, name->valuestring, valid(g, get(properties, name->valuestring)));
        if (!cJSON_IsNull(get(request, name->valuestring))) break;
    }
}

static cJSON *new_request(Generator *g) {
    cJSON *request = cJSON_CreateObject();
    add_required(g, request, get(g->request, "required"));
    if (get(g->request, "anyOf")) add_required(g, request, get(pick(g, get(g->request, "anyOf")), "required"));
    if (get(get(g->request, "properties"), "max_tokens")) cJSON_AddNumberToObject(request, "max_tokens", 2);
    return request;
}

/* ---- one field ---- */

/* Other names of max_tokens, with which they must agree. */
static bool is_length(const char *field) {
    return !strcmp(field, "max_completion_tokens") || !strcmp(field, "n_predict");
}

/* One value at least is an answer. */
static void try_allowed(Generator *g, const cJSON *field) {
    enum { ROUNDS = FEWER(5), MOST = 50 };
    int before = g->answered;
    for (int i = 0; i < ROUNDS || (i < MOST && g->answered == before); i++) {
        cJSON *request = new_request(g);
        set(request, field->string, valid(g, field));
        if (is_length(field->string)) cJSON_DeleteItemFromObjectCaseSensitive(request, "max_tokens");
        check_allowed(g, request);
        cJSON_Delete(request);
    }
    CHECK_MSG(g->answered > before, "%s: no value of %s is an answer", g->path, field->string);
}

static void try_forbidden(Generator *g, const cJSON *field) {
    enum { ROUNDS = FEWER(9) };
    Values v;
    cJSON *wrong = cJSON_CreateObject();
    cJSON_AddTrueToObject(wrong, field->string);
    forbidden(g, field, &v);
    int step = v.n / ROUNDS + 1;
    for (int i = below(g, step); i < v.n; i += step) {
        cJSON *request = new_request(g);
        set(request, field->string, cJSON_Duplicate(v.of[i], true));
        check_forbidden(g, request, wrong);
        cJSON_Delete(request);
    }
    values_free(&v);
    cJSON_Delete(wrong);
}

/* ---- many fields ---- */

/* A few fields with values that are allowed, now and then one that is not: its name goes to `wrong`. */
static void add_fields(Generator *g, cJSON *request, cJSON *wrong) {
    for (int k = below(g, 8); k >= 0; k--) {
        const cJSON *field = pick(g, get(g->request, "properties"));
        Values v = {0};
        if (!below(g, 24)) forbidden(g, field, &v);
        cJSON_DeleteItemFromObjectCaseSensitive(wrong, field->string);
        if (v.n) cJSON_AddTrueToObject(wrong, field->string);
        set(request, field->string, v.n ? cJSON_Duplicate(v.of[below(g, v.n)], true) : valid(g, field));
        values_free(&v);
    }
}

/* Of a request that is wrong the first error is told: perhaps of a rule that no schema has. */
static void try_together(Generator *g, int rounds) {
    for (int i = 0; i < rounds; i++) {
        cJSON *request = new_request(g), *wrong = cJSON_CreateObject();
        add_fields(g, request, wrong);
        if (wrong->child)
            check_forbidden(g, request, get(g->request, "properties"));
        else
            check_allowed(g, request);
        cJSON_Delete(wrong);
        cJSON_Delete(request);
    }
}

/* Limits so small that both sides of them are cheap. */
static const char options[] = "--any-model --chat-template plain --max-n 3 --max-prompts 3 --max-messages 4 "
                              "--max-stop 3 --max-stop-bytes 8 --max-logit-bias 3";

static const cJSON *request_schema(const cJSON *item) {
    return json_at(get(json_at(item, "post.requestBody.content"), "application/json"), "schema");
}

/* Refused, or refused without another field or what nobody guesses. */
static bool is_never_an_answer(const char *field) {
    return !strcmp(field, "suffix") || !strcmp(field, "top_logprobs") || !strcmp(field, "if_fingerprint");
}

/* No route of another task than the model's, and none whose fields have more of a form than their schema says. */
static bool answers_at_all(Generator *g) {
    enum { ROUNDS = 20 };
    for (int i = 0; i < ROUNDS && !g->answered; i++) {
        cJSON *request = new_request(g);
        ask(g, request);
        cJSON_Delete(request);
    }
    return g->answered > 0;
}

/* Requests to all routes that answer; how many do. Every field alone too, when `singly`. */
static int try_routes(TestCheckpoint kind, const char *daemon_options, bool singly, int together) {
    Daemon d;
    const cJSON *item, *field;
    int n_routes = 0;
    if (!daemon_start(&d, kind, daemon_options)) return 0;
    Answer document = http_get(&d, "/openapi.json");
    cJSON_ArrayForEach(item, json_at(document.json, "paths")) {
        Generator g = {.daemon = &d,
                       .document = document.json,
                       .state = 1,
                       .path = item->string,
                       .operation = get(item, "post"),
                       .request = request_schema(item)};
        if (!g.request || !answers_at_all(&g)) continue;
        n_routes++;
        cJSON_ArrayForEach(field, get(g.request, "properties")) {
            if (!singly) break;
            if (!is_never_an_answer(field->string)) try_allowed(&g, field);
            try_forbidden(&g, field);
        }
        try_together(&g, together);
        CHECK_MSG(g.answered > together / 6, "%s: %d answers", g.path, g.answered);
    }
    daemon_stop(&d);
    return n_routes;
}

/* `normally`, or as many rounds as the environment says. */
static int rounds(int normally) {
    const char *more = getenv("GENERATED");
    return more ? atoi(more) : normally;
}

TEST(generated_requests) { CHECK(try_routes(CHECKPOINT_SMALL, options, true, rounds(FEWER(150))) >= 5); }

TEST(generated_requests_of_tasks) {
    static const TestCheckpoint kinds[] = {CHECKPOINT_CLASSES, CHECKPOINT_TAGS, CHECKPOINT_MASKS};
    for (size_t i = 0; i < COUNTOF(kinds); i++)
        CHECK(try_routes(kinds[i], "--any-model --max-n 3 --max-prompts 3", false, rounds(FEWER(60))) >= 1);
}
