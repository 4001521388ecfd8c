import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { tuneForReading, tuneHeap } from './heap.ts';
import type { HeapTold } from './testing/heap-child.ts';

const CHILD = fileURLToPath(new URL('testing/heap-child.ts', import.meta.url));
const MIB = 2 ** 20;

test('an installation with the memory that it is given takes more since larger ones have room', () => {
  const flags: string[] = [];
  // --max-old-space-size=576 and what is new, as in config/operator/stateful-set.yaml.
  const heap = tuneHeap(588 * MIB, (flag) => flags.push(flag));
  expect(heap).toBeUndefined();
  expect(flags).toStrictEqual([
    '--heap-growing-percent=40',
    '--memory-saver-mode',
    '--invocation-count-for-maglev=40000',
    '--invocation-count-for-turbofan=300000',
  ]);
});

test('a heap with room is collected again and again, since V8 gives back what is needed a moment later', () => {
  const flags: string[] = [];
  tuneHeap(1036 * MIB, (flag) => flags.push(flag));
  expect(flags).toStrictEqual([
    '--heap-growing-percent=100',
    '--memory-saver-mode',
    '--memory-reducer-gc-count=0',
  ]);
});

test('a hub keeps the pages that it has read until its whole heap is collected, since V8 does not know the flag any more', () => {
  const flags: string[] = [];
  tuneForReading((flag) => flags.push(flag));
  expect(flags).toStrictEqual(['--no-allocation-site-pretenuring', '--no-memory-saver-mode']);
  // Node ends with an error where neither it nor V8 knows an option.
  expect(() =>
    execFileSync(process.execPath, ['--no-such-flag', '--eval', ''], { stdio: 'pipe' }),
  ).toThrow('bad option');
  expect(execFileSync(process.execPath, [...flags, '--print', '1']).toString()).toBe('1\n');
});

test('flags of V8 are set over and over again while nothing changes', () => {
  const flags: string[] = [];
  const heap = tuneHeap(1036 * MIB, (flag) => flags.push(flag));
  flags.length = 0;
  for (const early of [false, true, true, false, false]) heap?.collectEarly(early);
  expect(flags).toStrictEqual([
    '--incremental-marking-soft-trigger=5',
    '--incremental-marking-soft-trigger=0',
  ]);
});

test('V8 does not know the flags any more, and a heap with room is collected while a window is closed', async () => {
  const child = fork(CHILD, {
    execArgv: ['--expose-gc', '--max-old-space-size=1024', '--max-semi-space-size=4'],
  });
  try {
    const [told] = (await once(child, 'message')) as [HeapTold];
    // Left alone, the heap may double.
    expect(told.grownWithout).toBeGreaterThan(1.2);
    // Asked for it, V8 does not wait for that.
    expect(told.grownUntil).toBeLessThan(1.8);
    // It is asked for once: what comes and goes after that is not worth another one.
    expect(told.again).toBe(0);
  } finally {
    child.kill('SIGKILL');
  }
});
