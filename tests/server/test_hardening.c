/* What the compiler and the container do for us, which nobody would miss until it is too late. */
#include "base/err.h"
#include "tests/support/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* All of its output, malloc'ed. */
static char *output_of(const char *command) {
    FILE *f = popen(command, "r");
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    for (int c; f && (c = fgetc(f)) != EOF;) fputc(c, out);
    fclose(out);
    if (f) pclose(f);
    return text;
}

TEST(hardening_of_the_programs) {
    static const char *const names[] = {"noised", "noised-train", "noised-weights"};
    if (SANITIZED) SKIP("a sanitizer's build calls its own checks");
    const char *build = getenv("BUILD");
    for (size_t i = 0; i < COUNTOF(names); i++) {
        char command[512];
        snprintf(command, sizeof command, "readelf -W -h -l -d -n --dyn-syms %s/%s", build ? build : "build", names[i]);
        char *text = output_of(command);
        CHECK_MSG(strstr(text, "DYN (Position-Independent"), "%s is not position independent", names[i]);
        CHECK_MSG(strstr(text, "BIND_NOW"), "%s binds late", names[i]);
        CHECK_MSG(strstr(text, "GNU_RELRO"), "%s has no relro", names[i]);
        CHECK_MSG(strstr(text, "__stack_chk_fail"), "%s has no stack protector", names[i]);
        CHECK_MSG(strstr(text, "_chk@GLIBC"), "%s calls no checked function (_FORTIFY_SOURCE)", names[i]);
        CHECK_MSG(!strstr(text, "RWE"), "%s has memory that can be written and run", names[i]);
        free(text);
    }
}

#ifdef __x86_64__
/* The programs as such are not marked, for Debian's crt1.o is not. */
TEST(hardening_marks_branch_targets) {
    static const char *const rooms[] = {"base", "tokenizer", "model", "weights", "trainer", "server"};
    if (SANITIZED) SKIP("a sanitizer's build marks none");
    const char *build = getenv("BUILD");
    for (size_t i = 0; i < COUNTOF(rooms); i++) {
        char command[512];
        snprintf(command, sizeof command,
                 "ls %s/*.c | wc -l; for c in %s/*.c; do readelf -n %s/${c%%.c}.o; done | grep -c IBT,.SHSTK", rooms[i],
                 rooms[i], build ? build : "build");
        char *text = output_of(command);
        int objects = 0, marked = 0;
        CHECK_MSG(sscanf(text, "%d %d", &objects, &marked) == 2 && objects > 0 && marked == objects, "%s: %d of %d",
                  rooms[i], marked, objects);
        free(text);
    }
}
#endif

static bool has_sources(const char *folder) {
    DIR *d = opendir(folder);
    bool found = false;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        found = found || (n > 2 && !strcmp(e->d_name + n - 2, ".c"));
    }
    if (d) closedir(d);
    return found;
}

/* The image has all rooms, and by itself it lets nobody in. */
TEST(hardening_of_the_image) {
    size_t n;
    char *text = test_read_file("Dockerfile", &n);
    REQUIRE(text);
    char *start = strstr(text, "\nENTRYPOINT");
    REQUIRE(start);
    CHECK_MSG(!strstr(start, "0.0.0.0") && !strstr(start, "insecure"), "%s", start);
    DIR *top = opendir(".");
    for (struct dirent *e; top && (e = readdir(top)) != NULL;) {
        char line[600];
        snprintf(line, sizeof line, "\nCOPY %s %s\n", e->d_name, e->d_name);
        if (e->d_name[0] != '.' && strcmp(e->d_name, "examples") && has_sources(e->d_name))
            CHECK_MSG(strstr(text, line), "no room %s", e->d_name);
    }
    if (top) closedir(top);
    free(text);
}
