/* GET /openapi.json: every field of the parser and no other, every answer as it says. */
#include "base/err.h"
#include "base/random.h"
#include "model/kind.h"
#include "server/api/schema/openapi.h"
#include "server/api/schema/schema.h"
#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"
#include "tests/support/models.h"

#include <stdlib.h>
#include <string.h>

/* paths.PATH.METHOD */
static const cJSON *operation(const cJSON *document, const Route *r) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json_at(document, "paths"),
                                                         test_text("%s%s", r->path, r->parameter ? r->parameter : ""));
    return cJSON_GetObjectItemCaseSensitive(item, r->body ? "post" : "get");
}

/* With a slash in the name, which json_at would not take for a key. */
static const cJSON *content(const cJSON *from, const char *media) {
    return json_at(cJSON_GetObjectItemCaseSensitive(json_at(from, "content"), media), "schema");
}

static bool takes_type(const cJSON *property, const char *name) {
    return json_says(property, "type.0", name) && json_says(property, "type.1", "null");
}

static void check_property(const Field *f, const cJSON *p) {
    static const char *const types[] = {
        [FIELD_INT] = "integer",    [FIELD_FLOAT] = "number", [FIELD_BOOL] = "boolean", [FIELD_SEED] = "integer",
        [FIELD_FOLDED] = "integer", [FIELD_TEXT] = "string",  [FIELD_OBJECT] = "object"};
    CHECK_MSG(json_text(p, "description") && strstr(json_text(p, "description"), f->help), "%s", f->name);
    CHECK_MSG(!json_at(p, "default") || !strstr(json_text(p, "description"), " Default: "), "%s", f->name);
    if (f->kind <= FIELD_OBJECT) CHECK_MSG(takes_type(p, types[f->kind]), "%s", f->name);
    if (f->kind == FIELD_INT || f->kind == FIELD_FLOAT) CHECK_MSG(json_number(p, "minimum") == f->low, "%s", f->name);
    if ((f->kind == FIELD_INT || f->kind == FIELD_FLOAT) && !f->limit)
        CHECK_MSG(json_number(p, "maximum") == f->high, "%s", f->name);
    if (f->kind == FIELD_SEED) CHECK_MSG(json_number(p, "maximum") == (double)SEED_MAX, "%s", f->name);
    if (f->kind == FIELD_OTHER) CHECK_MSG(json_at(p, "type") || json_at(p, "anyOf"), "%s", f->name);
    if (f->kind == FIELD_NEUTRAL) CHECK_MSG(!json_at(p, "enum") == !f->neutral, "%s", f->name);
}

static void check_fields(const cJSON *schema, const FieldList *list) {
    const cJSON *properties = json_at(schema, "properties"), *property;
    int n = 0;
    CHECK(cJSON_IsTrue(json_at(schema, "additionalProperties")) == list->more);
    for (const FieldList *l = list; l; l = l->also)
        for (const Field *f = l->rows; f < l->rows + l->n; f++) {
            if (fields_find(list, f->name) != f) continue;
            property = cJSON_GetObjectItemCaseSensitive(properties, f->name);
            CHECK_MSG(property, "%s is no property", f->name);
            check_property(f, property);
            if (f->kind == FIELD_OBJECT) check_fields(property, f->fields);
            n++;
        }
    cJSON_ArrayForEach(property, properties)
        CHECK_MSG(fields_find(list, property->string), "%s is no field", property->string);
    CHECK(n == cJSON_GetArraySize(properties));
}

TEST(openapi_has_the_fields_of_the_parser) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_get(&d, "/openapi.json");
    REQUIRE(a.status == 200 && a.json && json_says(a.json, "openapi", "3.1.0"));
    int n_routes = 0;
    while (routes[n_routes].path) n_routes++;
    CHECK(cJSON_GetArraySize(json_at(a.json, "paths")) == n_routes);
    for (const Route *r = routes; r->path; r++) {
        const cJSON *o = operation(a.json, r);
        CHECK_MSG(o && json_says(o, "summary", r->help), "%s", r->path);
        CHECK(r->open == (cJSON_GetArraySize(json_at(o, "security")) == 0 && json_at(o, "security")));
        CHECK(json_says(o, "parameters.0.$ref", "#/components/parameters/RequestId"));
        CHECK(json_says(o, "parameters.1.$ref", "#/components/parameters/TraceParent"));
        CHECK(!r->parameter == !json_at(o, "parameters.2"));
        if (r->parameter)
            CHECK(json_says(o, "parameters.2.in", "path") && cJSON_IsTrue(json_at(o, "parameters.2.required")));
        if (r->body) check_fields(content(json_at(o, "requestBody"), "application/json"), r->body);
    }
    daemon_stop(&d);
}

/* What tokens a chat would have as its prompt may be asked with all fields of the chat. */
TEST(openapi_allows_a_chat_to_be_tokenized) {
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"add_generation_prompt\":false}";
    Daemon d;
    char why[256];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer document = http_get(&d, "/openapi.json"), a = http_post(&d, "/tokenize", body);
    cJSON *request = cJSON_Parse(body);
    const cJSON *schema =
        content(json_at(operation(document.json, route_find("/tokenize")), "requestBody"), "application/json");
    CHECK_MSG(a.status == 200 && schema_check(document.json, schema, request, why), "%s: %s", a.body, why);
    cJSON_Delete(request);
    daemon_stop(&d);
}

/* Generated clients call their functions so. */
TEST(openapi_names_every_operation) {
    const char *names[128];
    int n = 0;
    Daemon d;
    const cJSON *path, *method;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_get(&d, "/openapi.json");
    cJSON_ArrayForEach(path, json_at(a.json, "paths")) cJSON_ArrayForEach(method, path) {
        const char *name = json_text(method, "operationId");
        REQUIRE(name && n < (int)COUNTOF(names));
        CHECK_MSG(*name && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name), "%s", name);
        for (int i = 0; i < n; i++) CHECK_MSG(strcmp(names[i], name), "%s twice", name);
        names[n++] = name;
    }
    CHECK(json_says(operation(a.json, route_find("/chat/completions")), "operationId", "chat_completions"));
    CHECK(json_says(operation(a.json, route_find("/v1/models/x")), "operationId", "models_model"));
    daemon_stop(&d);
}

/* ---- limits ---- */

static void check_limit(const ApiContext *ctx, const char *limit) {
    double value;
    if (limit) CHECK_MSG(openapi_limit(ctx, limit, &value), "openapi.c does not know the limit %s", limit);
}

static void check_type_limits(const ApiContext *ctx, const Type *t) {
    check_limit(ctx, t->limit);
    for (size_t i = 0; i < COUNTOF(t->of) && t->of[i]; i++) check_type_limits(ctx, t->of[i]);
}

static void check_list_limits(const ApiContext *ctx, const FieldList *list) {
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        check_limit(ctx, f->limit);
        if (f->type) check_type_limits(ctx, f->type);
        if (f->fields) check_list_limits(ctx, f->fields);
    }
    if (list->also) check_list_limits(ctx, list->also);
}

TEST(openapi_knows_the_limits) {
    const Config config = {.vocab_size = 7};
    const ApiContext ctx = {.config = &config};
    double value;
    for (const Route *r = routes; r->path; r++)
        if (r->body) check_list_limits(&ctx, r->body);
    CHECK(!openapi_limit(&ctx, "--max-of-nothing", &value));
}

TEST(openapi_has_the_daemons_limits) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-n 5 --max-stop-bytes 9 --max-stop 2 --max-logit-bias 0"));
    Answer a = http_get(&d, "/openapi.json");
    const cJSON *p =
        json_at(content(json_at(operation(a.json, route_find("/v1/completions")), "requestBody"), "application/json"),
                "properties");
    CHECK(json_number(p, "n.maximum") == 5 && json_number(p, "stop.anyOf.0.maxLength") == 9);
    CHECK(json_number(p, "stop.anyOf.1.maxItems") == 2 && json_number(p, "n.default") == 1);
    CHECK(json_number(p, "stop_token_ids.items.maximum") == TEST_VOCAB - 1);
    CHECK(cJSON_GetArraySize(json_at(a.json, "security")) == 0);
    daemon_stop(&d);
}

/* ---- answers ---- */

/* Every $ref leads somewhere, and nothing is described that nobody refers to. */
static void follow(const cJSON *document, const cJSON *from, const char **used, int *n) {
    const cJSON *child;
    const char *ref = cJSON_IsString(from) && from->string && !strcmp(from->string, "$ref") ? from->valuestring : NULL;
    if (ref) {
        cJSON *holder = cJSON_CreateObject();
        cJSON_AddStringToObject(holder, "$ref", ref);
        CHECK_MSG(schema_resolve(document, holder), "%s leads nowhere", ref);
        cJSON_Delete(holder);
        if (*n < 1024) used[(*n)++] = ref;
    }
    cJSON_ArrayForEach(child, from) follow(document, child, used, n);
}

TEST(openapi_refers_to_all_it_describes) {
    const char *used[1024];
    int n = 0;
    Daemon d;
    const cJSON *kind, *one;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_get(&d, "/openapi.json");
    follow(a.json, a.json, used, &n);
    cJSON_ArrayForEach(kind, json_at(a.json, "components")) {
        if (!strcmp(kind->string, "securitySchemes")) continue;
        cJSON_ArrayForEach(one, kind) {
            const char *name = test_text("#/components/%s/%s", kind->string, one->string);
            int i = 0;
            while (i < n && strcmp(used[i], name)) i++;
            CHECK_MSG(i < n, "nobody refers to %s", name);
        }
    }
    daemon_stop(&d);
}

TEST(openapi_says_what_get_answers) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--model-name some/name --chat-template chatml"));
    Answer document = http_get(&d, "/openapi.json");
    for (const Route *r = routes; r->path; r++) {
        if (r->body) continue;
        char path[128], why[256];
        snprintf(path, sizeof path, "%s%s", r->path, r->parameter ? "some/name" : "");
        Answer a = http_get(&d, path);
        const cJSON *responses = json_at(operation(document.json, r), "responses");
        const cJSON *schema = content(json_at(responses, "200"), "application/json");
        CHECK_MSG(a.status == 200, "%s: %d", path, a.status);
        if (schema) CHECK_MSG(schema_check(document.json, schema, a.json, why), "%s: %s\n%s", path, why, a.body);
        char *type = answer_header(&a, "Content-Type");
        const cJSON *media = json_at(responses, "200.content")->child;
        CHECK_MSG(type && !strncmp(type, media->string, strlen(media->string)), "%s: %s", path, type ? type : "");
        free(type);
    }
    daemon_stop(&d);
}

static void check_answer(const Daemon *d, const char *path, const char *body) {
    char why[256];
    Answer document = http_get(d, "/openapi.json"), a = body ? http_post(d, path, body) : http_get(d, path);
    const cJSON *schema =
        content(json_at(operation(document.json, route_find(path)), "responses.200"), "application/json");
    CHECK_MSG(a.status == 200 && schema_check(document.json, schema, a.json, why), "%s: %s\n%s", path, why, a.body);
}

/* Fields that only some models and requests bring. */
TEST(openapi_says_what_rare_answers_have) {
    Daemon d;
    Config c = test_variant(attention_kind_find("symmetric"), "residual");
    const char *dir = test_dir();
    c.vocab_size = TEST_VOCAB;
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_F32, 1) && daemon_start_at(&d, dir, NULL));
    check_answer(&d, "/v1/embeddings", "{\"input\":\"a\",\"seed\":1}");
    check_answer(&d, "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\"],\"seed\":1}");
    check_answer(&d, "/v1/score", "{\"continuations\":[\"a\"],\"noise_component\":[0,1]}");
    check_answer(&d, "/completion", "{\"n_predict\":2,\"n_probs\":2,\"post_sampling_probs\":true}");
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_IMAGES, NULL));
    check_answer(&d, "/tokenizer_info", NULL);
    daemon_stop(&d);
}

/* Of a request and its answer no generator thinks. */
TEST(openapi_says_what_replay_answers) {
    static const char request[] = "{\"prompt\":\"The river\",\"max_tokens\":4,\"seed\":1,\"ignore_eos\":true}";
    static const char longer[] = "{\"prompt\":\"The river\",\"max_tokens\":5,\"seed\":1,\"ignore_eos\":true}";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer document = http_get(&d, "/openapi.json"), previous = http_post(&d, "/v1/completions", request);
    const cJSON *schema =
        content(json_at(operation(document.json, route_find("/v1/replay")), "responses.200"), "application/json");
    for (int i = 0; i < 2; i++) {
        Buffer b = {0};
        char why[256];
        buffer_print(&b, "{\"request\":%s,\"response\":%s}", i ? longer : request, previous.body);
        buffer_append(&b, "", 1);
        Answer a = http_post(&d, "/v1/replay", b.data);
        CHECK_MSG(a.status == 200 && schema_check(document.json, schema, a.json, why), "%s\n%s", why, a.body);
        buffer_free(&b);
    }
    daemon_stop(&d);
}
