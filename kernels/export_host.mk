# lib@NAME@.a and lib@NAME@.so. `make test` compares a run with what is expected; `make install PREFIX=/usr/local`.
# MARCH= builds for any processor of this kind instead of this very one, OPENMP= without threads.
NAME = @NAME@
SOURCES = @SOURCES@
VERSION = 1.0
PREFIX ?= /usr/local
DESTDIR ?=
MARCH ?= -march=native
OPENMP ?= -fopenmp
WARNINGS ?= -Wall -Wextra
OPTIMISE ?= -O3
# Not less: these say what arithmetic may do, and the last one keeps gcc 13 from a wrong sum.
GCC := $(shell $(CC) --version 2>/dev/null | grep -qi clang || echo -fno-thread-jumps)
ARITHMETIC = -ffp-contract=fast -fno-math-errno -fno-trapping-math $(GCC)
FLAGS = -std=gnu17 $(OPTIMISE) $(MARCH) $(or $(OPENMP),-fopenmp-simd) $(ARITHMETIC) $(WARNINGS) -fPIC -fvisibility=hidden $(CFLAGS)
LIBS = @LIBS@
OBJECTS = $(SOURCES:.c=.o)

all: lib$(NAME).a lib$(NAME).so

%.o: %.c $(NAME).h
	$(CC) $(CPPFLAGS) $(FLAGS) -c -o $@ $<

lib$(NAME).a: $(OBJECTS)
	rm -f $@ && $(AR) rcs $@ $(OBJECTS)

lib$(NAME).so: $(OBJECTS)
	$(CC) $(FLAGS) -shared $(LDFLAGS) -o $@ $(OBJECTS) $(LIBS)

test/main: test/main.c lib$(NAME).a
	$(CC) $(CPPFLAGS) $(FLAGS) $(LDFLAGS) -o $@ test/main.c lib$(NAME).a $(LIBS)

ifeq (@TEST@,1)
test: test/main
	./test/main test/data.bin
else
test:
	@echo "no test was exported"
endif

$(NAME).pc: $(NAME).pc.in
	sed -e 's|@''PREFIX@|$(PREFIX)|' -e 's|@''OPENMP@|$(OPENMP)|' $< >$@

install: all $(NAME).pc
	mkdir -p "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(PREFIX)/lib/pkgconfig"
	cp $(NAME).h "$(DESTDIR)$(PREFIX)/include/"
	cp lib$(NAME).a lib$(NAME).so "$(DESTDIR)$(PREFIX)/lib/"
	cp $(NAME).pc "$(DESTDIR)$(PREFIX)/lib/pkgconfig/"

clean:
	rm -f $(OBJECTS) lib$(NAME).a lib$(NAME).so $(NAME).pc test/main

.PHONY: all test install clean
