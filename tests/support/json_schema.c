#include "tests/support/json_schema.h"

#include "base/err.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cJSON *schema_resolve(const cJSON *document, const cJSON *schema) {
    const char *ref = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(schema, "$ref"));
    char path[256], *part, *rest;
    if (!ref) return schema;
    if (strncmp(ref, "#/", 2)) return NULL;
    snprintf(path, sizeof path, "%s", ref + 2);
    for (part = strtok_r(path, "/", &rest); part && document; part = strtok_r(NULL, "/", &rest))
        document = cJSON_GetObjectItemCaseSensitive(document, part);
    return document;
}

typedef struct Check {
    const cJSON *document;
    char *why; /* [256] */
} Check;

static bool fail(const Check *c, const cJSON *value, const char *what, double bound) {
    char *text = cJSON_PrintUnformatted(value);
    snprintf(c->why, 256, "%.40s: %.120s is not %.40s %.10g", value->string ? value->string : "value", text, what,
             bound);
    cJSON_free(text);
    return false;
}

static bool check(const Check *c, const cJSON *schema, const cJSON *value);

static bool is_type(const char *type, const cJSON *v) {
    if (!strcmp(type, "integer")) return cJSON_IsNumber(v) && v->valuedouble == floor(v->valuedouble);
    if (!strcmp(type, "number")) return cJSON_IsNumber(v);
    if (!strcmp(type, "string")) return cJSON_IsString(v);
    if (!strcmp(type, "boolean")) return cJSON_IsBool(v);
    if (!strcmp(type, "array")) return cJSON_IsArray(v);
    if (!strcmp(type, "object")) return cJSON_IsObject(v);
    return !strcmp(type, "null") && cJSON_IsNull(v);
}

static bool has_type(const cJSON *types, const cJSON *value) {
    const cJSON *type;
    if (cJSON_IsString(types)) return is_type(types->valuestring, value);
    cJSON_ArrayForEach(type, types) if (is_type(type->valuestring, value)) return true;
    return false;
}

static bool is_among(const cJSON *values, const cJSON *value) {
    const cJSON *one;
    cJSON_ArrayForEach(one, values) if (cJSON_Compare(one, value, true)) return true;
    return false;
}

static bool check_any_of(const Check *c, const cJSON *schemas, const cJSON *value) {
    const cJSON *schema;
    cJSON_ArrayForEach(schema, schemas) if (check(c, schema, value)) return true;
    return false;
}

static bool check_each(const Check *c, const cJSON *schema, const cJSON *value) {
    const cJSON *element;
    cJSON_ArrayForEach(element, value) if (!check(c, schema, element)) return false;
    return true;
}

static bool check_required(const Check *c, const cJSON *names, const cJSON *value) {
    const cJSON *name;
    cJSON_ArrayForEach(name, names) if (!cJSON_HasObjectItem(value, name->valuestring)) {
        snprintf(c->why, 256, "%.80s is missing", name->valuestring);
        return false;
    }
    return true;
}

/* Members that `properties` names are checked there, all others by additionalProperties. */
static bool check_object(const Check *c, const cJSON *schema, const cJSON *value) {
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties"), *member;
    const cJSON *others = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    cJSON_ArrayForEach(member, value) {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(properties, member->string);
        if (!own && cJSON_IsFalse(others)) return fail(c, member, "a property", NAN);
        if (own ? !check(c, own, member) : others && !check(c, others, member)) return false;
    }
    return true;
}

/* A keyword that bounds something: says nothing of values of other types. */
static bool check_bound(const Check *c, const char *key, double bound, const cJSON *v) {
    static const struct {
        const char *key, *type;
        bool least;
    } bounds[] = {{"minimum", "number", true},       {"maximum", "number", false},      {"minLength", "string", true},
                  {"maxLength", "string", false},    {"minItems", "array", true},       {"maxItems", "array", false},
                  {"minProperties", "object", true}, {"maxProperties", "object", false}};
    for (size_t i = 0; i < COUNTOF(bounds); i++) {
        if (strcmp(bounds[i].key, key)) continue;
        if (!is_type(bounds[i].type, v)) return true;
        double size = cJSON_IsNumber(v)   ? v->valuedouble
                      : cJSON_IsString(v) ? (double)utf8_count(v->valuestring, strlen(v->valuestring))
                                          : cJSON_GetArraySize(v);
        return (bounds[i].least ? size >= bound : size <= bound) || fail(c, v, key, bound);
    }
    snprintf(c->why, 256, "the keyword %.80s is not known", key);
    return false;
}

static bool check_keyword(const Check *c, const cJSON *key, const cJSON *value) {
    static const char *const silent[] = {"description", "default", "format", "properties", "additionalProperties"};
    for (size_t i = 0; i < COUNTOF(silent); i++)
        if (!strcmp(key->string, silent[i])) return true;
    if (!strcmp(key->string, "type")) return has_type(key, value) || fail(c, value, "of the type", NAN);
    if (!strcmp(key->string, "enum")) return is_among(key, value) || fail(c, value, "in the enum", NAN);
    if (!strcmp(key->string, "const")) return cJSON_Compare(key, value, true) || fail(c, value, "the const", NAN);
    if (!strcmp(key->string, "anyOf")) return check_any_of(c, key, value);
    if (!strcmp(key->string, "items")) return !cJSON_IsArray(value) || check_each(c, key, value);
    if (!strcmp(key->string, "required")) return !cJSON_IsObject(value) || check_required(c, key, value);
    return check_bound(c, key->string, key->valuedouble, value);
}

static bool check(const Check *c, const cJSON *schema, const cJSON *value) {
    const cJSON *s = schema_resolve(c->document, schema), *key;
    if (!s) {
        snprintf(c->why, 256, "a $ref leads nowhere");
        return false;
    }
    cJSON_ArrayForEach(key, s) if (!check_keyword(c, key, value)) return false;
    return !cJSON_IsObject(value) || check_object(c, s, value);
}

bool schema_check(const cJSON *document, const cJSON *schema, const cJSON *value, char why[256]) {
    const Check c = {document, why};
    why[0] = '\0';
    return check(&c, schema, value);
}
