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
        char *text = output_of(test_text("readelf -W -h -l -d -n --dyn-syms %s/%s", build ? build : "build", names[i]));
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
        char *text = output_of(
            test_text("ls %s/*.c | wc -l; for c in %s/*.c; do readelf -n %s/${c%%.c}.o; done | grep -c IBT,.SHSTK",
                      rooms[i], rooms[i], build ? build : "build"));
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
        if (e->d_name[0] != '.' && strcmp(e->d_name, "examples") && has_sources(e->d_name))
            CHECK_MSG(strstr(text, test_text("\nCOPY %s %s\n", e->d_name, e->d_name)), "no room %s", e->d_name);
    }
    if (top) closedir(top);
    free(text);
}

/* Make finds whatever it asks for among the files that the first stage copies, none of which docker passes over. */
TEST(hardening_image_has_what_it_is_built_from) {
    char *image = test_read_file("Dockerfile", NULL), *ignored = test_read_file(".dockerignore", NULL);
    const char *dir = test_dir();
    char *rest = image, command[1024];
    REQUIRE(image && ignored);
    *strstr(image, "\nRUN make") = 0;
    for (char *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        char from[200], to[200];
        if (sscanf(line, "COPY %199s %199s", from, to) != 2) continue;
        snprintf(command, sizeof command, "\n%s\n", from);
        CHECK_MSG(!strstr(ignored, command), ".dockerignore has %s", from);
        snprintf(command, sizeof command, "cp -r %s %s/%s", from, dir, to);
        CHECK_MSG(system(command) == 0, "%s", command);
    }
    snprintf(command, sizeof command,
             "env -u MAKEFLAGS -u MAKELEVEL -u BUILD -u SAN make -s -n -C %s all build/noised-train-mpi 2>&1 >%s/plan",
             dir, dir);
    FILE *make = popen(command, "r");
    REQUIRE(make);
    char said[500] = "";
    said[fread(said, 1, sizeof said - 1, make)] = 0;
    CHECK_MSG(pclose(make) == 0, "%s", said);
    free(image);
    free(ignored);
}

/* What deploy/mpijob.yaml runs is a target of the Dockerfile, and not the one that is built by default. */
TEST(hardening_names_the_image_of_many_machines) {
    static const char target[] = " AS noised-train-mpi\n", job[] = " image: noised-train-mpi\n";
    char *image = test_read_file("Dockerfile", NULL), *pods = test_read_file("deploy/mpijob.yaml", NULL);
    REQUIRE(image && pods);
    const char *stage = strstr(image, target), *entry = strstr(image, "\nENTRYPOINT"), *pod = strstr(pods, job);
    CHECK(stage && entry && stage < entry && strstr(stage, "/src/build/noised-train-mpi /usr/local/bin/"));
    CHECK(pod && strstr(pod + strlen(job), job)); /* of the launcher and of the workers */
    free(image);
    free(pods);
}
