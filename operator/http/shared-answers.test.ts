import { expect, test } from 'vitest';
import { SharedAnswers } from './shared-answers.ts';

interface Answer {
  readonly text: string;
  readonly rows: readonly unknown[];
}

function rig(rows = 1) {
  let time = 0;
  let made = 0;
  const answers = new SharedAnswers<Answer>({ monotonic: () => time }, 2);
  return {
    query: async (key: string, head: number, maxAgeMs = 0) => {
      const { text } = await answers.get(key, { head, maxAgeMs }, async () => {
        made += 1;
        return { text: `${key} at ${head}`, rows: Array.from({ length: rows }) };
      });
      return text;
    },
    pass: (ms: number) => {
      time += ms;
    },
    made: () => made,
  };
}

test('a hundred viewers of one page read the ledger a hundred times', async () => {
  const { query, made } = rig();
  await Promise.all(Array.from({ length: 100 }, () => query('month', 7)));
  await query('month', 7);
  expect(made()).toBe(1);
});

test('an answer outlives the events that came since, or the age that its reader allows', async () => {
  const { query, pass, made } = rig();
  expect(await query('month', 7, 30)).toBe('month at 7');
  pass(30);
  expect(await query('month', 8, 30)).toBe('month at 7');
  expect(await query('month', 8, 0)).toBe('month at 8');
  pass(31);
  expect(await query('month', 9, 30)).toBe('month at 9');
  expect(made()).toBe(3);
});

test('answers pile up, or one that is too large is kept', async () => {
  const few = rig();
  for (const key of ['a', 'b', 'c', 'a']) await few.query(key, 1);
  expect(few.made()).toBe(4);
  for (const [rows, times] of [
    [5000, 1],
    [5001, 2],
  ] as const) {
    const large = rig(rows);
    await large.query('a', 1);
    await large.query('a', 1);
    expect(large.made()).toBe(times);
  }
});

test('a failure is stored and answered to everybody after', async () => {
  const answers = new SharedAnswers<Answer>({ monotonic: () => 0 }, 2);
  const freshness = { head: 1, maxAgeMs: 1000 };
  await expect(
    answers.get('a', freshness, () => Promise.reject(new Error('busy'))),
  ).rejects.toThrow('busy');
  const good = { text: 'well', rows: [] };
  expect(await answers.get('a', freshness, async () => good)).toBe(good);
});
