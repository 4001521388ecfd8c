import { expect, test } from 'vitest';
import { SharedAnswers } from './shared-answers.ts';

function rig(mayKeep: (answer: string) => boolean = () => true) {
  let time = 0;
  let made = 0;
  const answers = new SharedAnswers<string>({ now: () => time, maxAnswers: 2, mayCache: mayKeep });
  return {
    query: (key: string, head: number, maxAgeMs = 0) =>
      answers.get(key, { head, maxAgeMs }, async () => {
        made += 1;
        return `${key} at ${head}`;
      }),
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
  const small = rig(() => false);
  await small.query('a', 1);
  await small.query('a', 1);
  expect(small.made()).toBe(2);
});

test('a failure is stored and answered to everybody after', async () => {
  const answers = new SharedAnswers<string>({ now: () => 0, maxAnswers: 2, mayCache: () => true });
  const freshness = { head: 1, maxAgeMs: 1000 };
  await expect(
    answers.get('a', freshness, () => Promise.reject(new Error('busy'))),
  ).rejects.toThrow('busy');
  expect(await answers.get('a', freshness, async () => 'well')).toBe('well');
});
