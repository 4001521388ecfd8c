import { expect, test } from 'vitest';
import type { Given } from './command.ts';
import { replay } from './replay.ts';

/** What was posted by `replay invoicing` with some switches. */
async function posted(...set: readonly string[]) {
  const bodies: unknown[] = [];
  const answer = { replayed: 1, still_rejected: 0, pending: 0 };
  const letter = {
    sequence: 7,
    at: '2026-11-21T09:05:00Z',
    reason: 'status 422',
    unanswered_since: '2026-11-21T09:04:00Z',
    event: { id: 'evt_1', tenant: 'acme' },
  };
  const given: Given = {
    api: {
      get: async () => ({ kind: 'ok', value: { dead_letters: [letter] } }),
      post: async (_, body) => {
        bodies.push(body);
        return { kind: 'ok', value: answer };
      },
    },
    positionals: ['invoicing'],
    option: () => undefined,
    options: () => [],
    isSet: (name) => set.includes(name),
    now: 0,
  };
  return { bodies, answer: await replay.run(given) };
}

test('what may be billed twice is sent only where that is stated', async () => {
  expect((await posted('all')).bodies).toStrictEqual([{ all: true }]);
  expect((await posted('all', 'force')).bodies).toStrictEqual([{ all: true, force: true }]);
  const { bodies, answer } = await posted('force');
  expect(bodies).toStrictEqual([]);
  expect(answer).toMatchObject({
    kind: 'failed',
    message: expect.stringContaining('--all or --id'),
  });
});

test('a dead letter says that it may have been taken', async () => {
  const { answer } = await posted();
  expect(JSON.stringify(answer)).toMatch(/status 422 \(an attempt of [^)]+ had no answer\)/);
});
