import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPrometheus, requirePrometheus } from './programs.ts';

test('where Prometheus is not installed, the error says how to install it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'no-prometheus-'));
  try {
    expect(await findPrometheus(directory)).toBeUndefined();
    await expect(requirePrometheus(directory)).rejects.toThrow(
      /^prometheus or promtool: not on the PATH: install it .*apt-get install prometheus/,
    );
    const files = ['prometheus', 'promtool'].map((name) => join(directory, name));
    for (const file of files) await writeFile(file, '#!/bin/sh\n', { mode: 0o755 });
    const [prometheus, promtool] = files;
    expect(await requirePrometheus(`/nowhere:${directory}`)).toEqual({ prometheus, promtool });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
