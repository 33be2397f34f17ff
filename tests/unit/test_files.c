/* Files: nothing waits, what is not a file is refused, private means private, and a damaged cached file is seen. */
#include "base/checked.h"
#include "base/file.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"

static char *keep(const char *path)
{
    return fb_strdup(path);
}

static void refused(const char *path, unsigned use, const char *why)
{
    fb_error err = {0};
    int fd = fb_file_open(path, use, &err);
    if (fd >= 0) fail_msg("%s was opened", path);
    if (!strstr(err.text, why)) fail_msg("\"%s\" says nothing of \"%s\"", err.text, why);
}

/* A pipe without a writer would keep the opener for ever; an alarm ends the test then. */
static void a_pipe_is_refused_at_once(void **state)
{
    (void)state;
    fb_error err = {0};
    char *path = keep(in_scratch("fifo"));
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(300); /* nothing here may wait for a writer */
    static const unsigned uses[] = {FB_FILE_READ, FB_FILE_WRITE, FB_FILE_APPEND, FB_FILE_UPDATE};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) refused(path, uses[i], "not a regular file");
    assert_null(fb_read_file(path, 100, NULL, &err));
    assert_false(fb_write_file(path, "x", 1, &err));
    assert_non_null(strstr(err.text, "not a regular file"));
    struct stat st; /* and nothing was put in its place */
    assert_true(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    alarm(0);
    refused(scratch, FB_FILE_READ, "not a regular file");
    refused("/dev/zero", FB_FILE_READ, "not a regular file");
    fb_free(path);
}

static void a_device_is_written_into_and_not_replaced(void **state)
{
    (void)state;
    fb_error err = {0};
    struct stat st;
    assert_true(fb_write_file("/dev/null", "x", 1, &err));
    assert_true(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    assert_false(fb_write_file("/dev/full", "x", 1, &err));
    assert_non_null(strstr(err.text, "/dev/full: No space left on device"));
    assert_true(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode));
}

static void a_written_file_is_whole_or_not_there(void **state)
{
    (void)state;
    fb_error err = {0};
    size_t n;
    char *path = keep(in_scratch("whole"));
    assert_true(fb_write_file(path, "before", 6, &err));
    struct rlimit was, small = {.rlim_cur = 1000};
    getrlimit(RLIMIT_FSIZE, &was);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    char *large = fb_calloc(1, 5000);
    assert_false(fb_write_file(path, large, 5000, &err));
    setrlimit(RLIMIT_FSIZE, &was);
    assert_non_null(strstr(err.text, "File too large"));
    char *text = fb_read_file(path, 100, &n, &err);
    assert_string_equal(text, "before");
    fb_free(text);
    fb_new_file f;
    assert_true(fb_new_file_begin(&f, path, 0, &err));
    fb_new_file_abandon(&f);
    assert_int_equal(access(f.temporary, F_OK), -1);
    assert_null(fb_read_file(path, 5, NULL, &err));
    assert_int_equal(err.kind, FB_ERR_LIMIT);
    fb_free(large);
    fb_free(path);
}

/* What a full disk has left of a line does not spoil the next one. */
static void appended_lines_stay_lines(void **state)
{
    (void)state;
    fb_error err = {0};
    char *path = keep(in_scratch("lines"));
    assert_true(fb_file_append(path, 0, "one", &err));
    assert_true(fb_file_append(path, 0, "two", &err));
    assert_int_equal(truncate(path, 6), 0);
    assert_true(fb_file_append(path, 0, "three", &err));
    char *text = fb_read_file(path, 100, NULL, &err);
    assert_string_equal(text, "one\ntw\nthree\n");
    fb_free(text);
    fb_free(path);
    assert_false(fb_file_append("/dev/full", 0, "x", &err));
    assert_non_null(strstr(err.text, "/dev/full: No space left"));
}

static void private_files(void **state)
{
    (void)state;
    fb_error err = {0};
    struct stat st;
    char *path = keep(in_scratch("mine")), *link = keep(in_scratch("link"));
    mode_t was = umask(0);
    int fd = fb_file_open(path, FB_FILE_APPEND | FB_FILE_PRIVATE, &err);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close(fd);
    umask(was);
    assert_int_equal(symlink(path, link), 0);
    refused(link, FB_FILE_READ | FB_FILE_PRIVATE, "a link");
    refused(link, FB_FILE_UPDATE | FB_FILE_PRIVATE, "a link");
    chmod(path, 0620);
    refused(path, FB_FILE_READ | FB_FILE_PRIVATE, "others may write to it");
    chmod(path, 0600);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 0), 0);
        refused(path, FB_FILE_READ | FB_FILE_PRIVATE, "belongs to another user");
    }
    fb_free(path);
    fb_free(link);
}

static void not_ours(const char *path, const char *why)
{
    fb_error err = {0};
    if (fb_private_folder(path, &err)) fail_msg("%s was taken", path);
    if (!strstr(err.text, why)) fail_msg("\"%s\" says nothing of \"%s\"", err.text, why);
}

static void private_folders(void **state)
{
    (void)state;
    static const mode_t masks[] = {0, 022, 0777};
    fb_error err = {0};
    struct stat st;
    char name[32];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "a%zu/b", i);
        char *path = keep(in_scratch(name));
        mode_t was = umask(masks[i]);
        bool made = fb_private_folder(path, &err);
        umask(was);
        if (!made) fail_msg("%s", err.text);
        assert_true(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
        fb_free(path);
    }
    char *path = keep(in_scratch("a0/b")), *above = keep(in_scratch("a0")), *link = keep(in_scratch("to"));
    chmod(path, 0755); /* others may have read it; that ends */
    assert_true(fb_private_folder(path, &err));
    assert_true(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
    assert_int_equal(symlink(path, link), 0);
    assert_true(fb_private_folder(link, &err)); /* a user may keep it elsewhere */
    chmod(path, 0770);
    not_ours(path, "others may write to");
    not_ours(link, "others may write to");
    chmod(path, 0700);
    chmod(above, 0777);
    not_ours(path, "others may write to");
    not_ours(link, "others may write to");
    chmod(above, 01777);
    assert_true(fb_private_folder(path, &err));
    chmod(above, 0700);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 0), 0);
        not_ours(path, "belongs to another user");
        assert_true(chown(path, 0, 0) == 0 && chown(above, 12345, 0) == 0);
        not_ours(path, "belongs to another user");
    }
    fb_free(path);
    fb_free(above);
    fb_free(link);
}

/* ---- checksums ---- */

static void put_byte(const char *path, off_t at, char what)
{
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, &what, 1, at), 1);
    close(fd);
}

/* Whatever happens to a byte of it, an entry is whole or gone. */
static void every_damage_is_seen(void **state)
{
    (void)state;
    fb_error err = {0};
    struct stat st;
    char *path = keep(in_scratch("entry"));
    static const char contents[] = "what was compiled";
    assert_int_equal(fb_checked_verify(path, "key"), FB_CHECKED_ABSENT);
    assert_true(fb_checked_write(path, "key", contents, sizeof contents, &err));
    assert_true(stat(path, &st) == 0);
    for (off_t i = 0; i < st.st_size; i++) {
        assert_true(fb_checked_write(path, "key", contents, sizeof contents, &err));
        assert_int_equal(fb_checked_verify(path, "key"), FB_CHECKED_WHOLE);
        put_byte(path, i, '\xee');
        assert_int_equal(fb_checked_verify(path, "key"), FB_CHECKED_DAMAGED);
        assert_int_equal(access(path, F_OK), -1);
        assert_true(fb_checked_write(path, "key", contents, sizeof contents, &err));
        assert_int_equal(truncate(path, i), 0);
        assert_null(fb_checked_read(path, "key", 1 << 20, NULL));
        assert_int_equal(access(path, F_OK), -1);
    }
    fb_free(path);
}

static void keys_and_names(void **state)
{
    (void)state;
    fb_error err = {0};
    char *path = keep(in_scratch("parts")), *other = keep(in_scratch("other"));
    size_t n;
    enum { ALL = 1500000 };
    static char contents[ALL];
    for (int i = 0; i < ALL; i++) contents[i] = (char)('a' + i / 5000 % 26);
    assert_true(fb_checked_write(path, "one\ntwo", contents, ALL, &err));
    assert_int_equal(link(path, other), 0);
    assert_int_equal(fb_checked_verify(path, "one"), FB_CHECKED_WHOLE);
    char *text = fb_checked_read(other, "two", ALL, &n);
    assert_true(text && n == ALL && text[5000] == 'b' && text[n] == '\0');
    fb_free(text);
    assert_null(fb_checked_read(path, "one", ALL - 1, NULL)); /* too long is not damaged */
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(fb_checked_verify(other, "three"), FB_CHECKED_DAMAGED); /* under another's name */
    assert_int_equal(access(other, F_OK), -1);
    fb_free(path);
    fb_free(other);
}

static void sealing_what_another_wrote(void **state)
{
    (void)state;
    fb_error err = {0};
    size_t n;
    char *path = keep(in_scratch("sealed"));
    assert_true(fb_write_file(path, "object", 6, &err));
    assert_true(fb_checked_seal(path, "k1\nk2", &err));
    char *text = fb_checked_read(path, "k2", 100, &n);
    assert_true(text && n == 6);
    assert_string_equal(text, "object");
    fb_free(text);
    fb_free(path);
}

/* A disk that is full shows at the end, and leaves nothing. */
static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    fb_error err = {0};
    char *path = keep(in_scratch("full"));
    struct rlimit was, small = {.rlim_cur = 4096};
    static char part[10000];
    getrlimit(RLIMIT_FSIZE, &was);
    small.rlim_max = was.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    bool good = fb_checked_write(path, "key", part, sizeof part, &err);
    setrlimit(RLIMIT_FSIZE, &was);
    assert_false(good);
    assert_int_equal(err.kind, FB_ERR_SYSTEM);
    glob_t left;
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s*", path); /* nor what it was to become it */
    assert_int_equal(glob(pattern, 0, NULL, &left), GLOB_NOMATCH);
    globfree(&left);
    fb_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipe_is_refused_at_once),
        cmocka_unit_test(a_device_is_written_into_and_not_replaced),
        cmocka_unit_test(a_written_file_is_whole_or_not_there),
        cmocka_unit_test(appended_lines_stay_lines),
        cmocka_unit_test(private_files),
        cmocka_unit_test(private_folders),
        cmocka_unit_test(every_damage_is_seen),
        cmocka_unit_test(keys_and_names),
        cmocka_unit_test(sealing_what_another_wrote),
        cmocka_unit_test(a_full_disk_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
