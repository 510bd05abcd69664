/* faults FILE: computes on the CPU where it was started, and takes page faults while the first byte
 * of FILE is 1; ends when it is 2. There is no system call in its loop: FILE is mapped, and each
 * fault touches one more page of memory that was reserved at the start. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

static const size_t page = 4096, reserved = 1UL << 30;

int main(int argc, char **argv)
{
	int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	volatile char *word = mmap(NULL, page, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
	char *memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t next = 0;

	if (word == MAP_FAILED || memory == MAP_FAILED) {
		perror("faults");
		return 1;
	}
	madvise(memory, reserved, MADV_NOHUGEPAGE); /* refused by kernels without huge pages */
	while (*word != 2) {
		unsigned long long until = __rdtsc() + 4000000;

		if (*word == 1 && next < reserved) {
			memory[next] = 1;
			next += page;
		}
		while (__rdtsc() < until && *word != 2)
			__builtin_ia32_pause();
	}
	return 0;
}
