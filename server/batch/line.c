#include "server/batch/line.h"

#include "base/json/json_reader.h"
#include "server/routes.h"

#include <string.h>

static const Field rows[] = {
    {.name = "custom_id", .kind = FIELD_TEXT, .offset = offsetof(BatchLine, custom_id)},
    {.name = "method", .kind = FIELD_TEXT, .offset = offsetof(BatchLine, method)},
    {.name = "url", .kind = FIELD_TEXT, .offset = offsetof(BatchLine, url)},
    {.name = "body", .kind = FIELD_OTHER, .offset = offsetof(BatchLine, object)},
};
static const FieldList fields = {.rows = rows, .n = COUNTOF(rows)};

static int fail(ApiError *e, const char *param, const char *what) {
    return api_fail(e, 400, "invalid_line", param, "%s %s", param, what);
}

/* ---- where the body stands ---- */

/* The value of the object's member `index`, perhaps with white space behind it. */
static void find_value(BatchLine *l, const char *text, int index) {
    const char *at = strchr(text, '{') + 1;
    for (; index > 0; index--, at++)
        while (*at != ',') at = json_skip(at);
    while (*at != ':') at = json_skip(at);
    at++;
    l->body = at += strspn(at, " \t\r\n");
    while (*at != ',' && *at != '}') at = json_skip(at);
    l->n_body = (size_t)(at - l->body);
}

static void find_body(BatchLine *l, const char *text) {
    int index = 0;
    for (const cJSON *member = l->json->child; member; member = member->next, index++)
        if (member == l->object) find_value(l, text, index);
}

/* ---- what it says ---- */

int batch_line_read(BatchLine *l, const char *text, size_t n, ApiError *e) {
    enum { DEPTH = 512 }; /* more than any request may have: that is for the route to say */
    Err err;
    *l = (BatchLine){.json = json_parse(text, n, DEPTH, SIZE_MAX, &err)};
    if (!l->json) return api_fail(e, 400, "invalid_json", NULL, "%s", err.msg);
    if (!cJSON_IsObject(l->json)) return api_fail(e, 400, "invalid_line", NULL, "it must be a JSON object");
    const cJSON *id = json_field(l->json, "custom_id");
    if (!cJSON_IsString(id) || !*id->valuestring || strlen(id->valuestring) > BATCH_ID_BYTES)
        return api_fail(e, 400, "invalid_line", "custom_id", "custom_id must be a string of 1 to %d bytes, not %s",
                        BATCH_ID_BYTES, show_json(id).text);
    l->custom_id = id->valuestring;
    l->object = json_field(l->json, "body");
    find_body(l, text);
    return 0;
}

int batch_line_check(BatchLine *l, ApiError *e) {
    const FieldReader r = {.out = l, .error = e};
    if (fields_read(&r, l->json, &fields)) {
        e->code = "invalid_line";
        return -1;
    }
    if (!l->method || strcmp(l->method, "POST") != 0) return fail(e, "method", "must be \"POST\"");
    if (!l->url) return fail(e, "url", "is missing");
    l->route = route_find(l->url);
    if (!l->route) {
        routes_fail_unknown(l->url, e);
        snprintf(e->param, sizeof e->param, "url");
        return -1;
    }
    if (!l->route->body) return fail(e, "url", "names a route that is no POST");
    if (!l->object) return fail(e, "body", "is missing");
    if (!cJSON_IsObject(l->object)) return fail(e, "body", "must be an object");
    if (cJSON_IsTrue(json_field(l->object, "stream")))
        return fail(e, "body.stream", "must be false: a batch has no streams");
    return 0;
}

void batch_line_close(BatchLine *l) {
    cJSON_Delete(l->json);
    *l = (BatchLine){0};
}
