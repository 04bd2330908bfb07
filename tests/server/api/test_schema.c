/* One table for the parser and for docs/api.md: the rows mean what they say, and the page says what they mean. */
#include "server/api/schema/schema.h"

#include "base/err.h"
#include "base/random.h"
#include "base/memory.h"
#include "server/api/foreign.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

TEST(schema_is_in_the_documents) {
    static const char front[] = "<!-- tables -->\n", back[] = "<!-- end of tables -->\n";
    Buffer b = {0};
    char *page = test_read_file("docs/api.md", NULL);
    REQUIRE(page);
    char *begin = strstr(page, front), *end = strstr(page, back);
    REQUIRE(begin && end && begin < end);
    begin += strlen(front);
    schema_print_markdown(&b);
    CHECK_MSG((size_t)(end - begin) == b.n && !memcmp(begin, b.data, b.n), "docs/api.md is stale: make docs");
    buffer_free(&b);
    free(page);
}

/* A route takes the fields of whole chains of lists: those of tasks were told by no section of the page. */
TEST(schema_tells_every_field_that_a_route_reads) {
    Buffer b = {0};
    schema_print_markdown(&b);
    for (const Route *r = routes; r->path; r++) {
        char *section = r->body ? strstr(b.data, test_text("### POST %s\n", r->path)) : NULL;
        CHECK(!r->body == !section);
        if (!section) continue;
        size_t n = (size_t)(strstr(section + 1, "\n### ") - section);
        for (const FieldList *l = r->body; l && l != &foreign_fields; l = l->also)
            for (const Field *f = l->rows; f < l->rows + l->n; f++) {
                if (f->kind == FIELD_NONE || fields_find(r->body, f->name) != f) continue;
                const char *name = test_text("`%s`", f->name);
                CHECK_MSG(memmem(section, n, name, strlen(name)) != NULL, "%s: %s", r->path, f->name);
            }
    }
    buffer_free(&b);
}

typedef struct Values {
    _Alignas(16) char bytes[4096]; /* larger than any struct that is filled */
    ApiError error;
} Values;

/* {name: value} read by a list of this row alone; false when it is refused. */
static bool read_number(const Field *f, double value, Values *v) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, f->name, value);
    FieldReader r = {.out = v->bytes, .error = &v->error};
    int rc = fields_read(&r, object, &(FieldList){.rows = f, .n = 1});
    cJSON_Delete(object);
    return rc == 0;
}

static void check_number(const Field *f) {
    Values v = {0};
    bool integer = f->kind == FIELD_INT;
    double low = f->low, high = f->kind == FIELD_SEED ? (double)SEED_MAX : f->high,
           beyond = f->kind == FIELD_FLOAT ? 1e-6 : 1;
    CHECK_MSG(read_number(f, low, &v) && read_number(f, high, &v), "%s: %s", f->name, v.error.message);
    CHECK_MSG(!read_number(f, low - beyond, &v) && !strcmp(v.error.param, f->name), "%s", f->name);
    CHECK_MSG(!read_number(f, high + beyond, &v) && !strcmp(v.error.param, f->name), "%s", f->name);
    if (integer) CHECK_MSG(!read_number(f, low + 0.5, &v), "%s", f->name);
}

static void check_fallback(const Field *f, const char *bytes) {
    const char *at = bytes + f->offset;
    if (f->kind == FIELD_INT) CHECK_MSG(*(const int *)at == (int)f->fallback, "%s", f->name);
    if (f->kind == FIELD_FLOAT) CHECK_MSG(*(const float *)at == (float)f->fallback, "%s", f->name);
    if (f->kind == FIELD_BOOL) CHECK_MSG(*(const bool *)at == (f->fallback != 0), "%s", f->name);
    /* What is no value of the field stands for absence, which then must be said in words. */
    bool inside = f->fallback >= f->low && f->fallback <= f->high;
    if (f->kind == FIELD_INT || f->kind == FIELD_FLOAT) CHECK_MSG(inside || f->absent, "%s", f->name);
    if (f->kind > FIELD_BOOL) CHECK_MSG(f->absent != NULL, "%s", f->name);
}

static void check_limits(const char *help, const Type *t) {
    if (t->limit && t->limit[0] == '-') CHECK_MSG(strstr(help, t->limit) != NULL, "%s is no option", t->limit);
    for (size_t i = 0; i < COUNTOF(t->of) && t->of[i]; i++) check_limits(help, t->of[i]);
}

static void check_rows(const FieldList *list, const char *help) {
    Values v;
    memset(&v, 0x55, sizeof v);
    cJSON *nothing = cJSON_CreateObject();
    FieldReader r = {.out = v.bytes, .error = &v.error};
    CHECK(fields_read(&r, nothing, list) == (list->either[0] ? -1 : 0));
    cJSON_Delete(nothing);
    for (const Field *f = list->rows; f < list->rows + list->n; f++) {
        if (f->kind == FIELD_NONE) {
            CHECK_MSG(list->also && fields_find(list->also, f->name) && !fields_find(list, f->name), "%s", f->name);
            continue;
        }
        check_fallback(f, v.bytes);
        if (f->kind <= FIELD_FLOAT || f->kind == FIELD_SEED) check_number(f);
        if (f->kind == FIELD_OBJECT) check_rows(f->fields, help);
        CHECK_MSG(f->help && (f->kind == FIELD_OTHER) == !!f->type && (!f->read || f->type), "%s", f->name);
        if (f->limit) check_limits(help, &(Type){.limit = f->limit});
        if (f->type) check_limits(help, f->type);
        for (const Field *g = list->rows; g < f; g++) CHECK_MSG(strcmp(f->name, g->name), "%s twice", f->name);
    }
}

/* What the daemon says of its options. */
static char *daemon_help(void) {
    enum { SIZE = 1 << 16 };
    const char *build = getenv("BUILD");
    char *text = xcalloc(1, SIZE);
    FILE *f = popen(test_text("%s/noised --help", build ? build : "build"), "r");
    BUG_ON(!f);
    size_t n = fread(text, 1, SIZE - 1, f);
    CHECK(pclose(f) == 0 && n > 0);
    return text;
}

TEST(schema_rows_mean_what_they_say) {
    char *help = daemon_help();
    for (const Route *r = routes; r->path; r++) {
        CHECK(r->help && route_find(r->path) == r &&
              (r->engine != NULL) + (r->convert != NULL) + (r->get != NULL) == 1);
        CHECK(!r->get == (r->body != NULL));
        for (size_t i = 0; i < COUNTOF(r->also) && r->also[i]; i++)
            CHECK_MSG(route_find(r->also[i]) == r, "%s", r->path);
        if (r->body) check_rows(r->body, help);
    }
    free(help);
}
