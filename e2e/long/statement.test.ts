import { expect, test } from 'vitest';
import {
  downloadStatement,
  fillMonth,
  statementKeys,
  statementServer,
  verifyStatements,
} from '../../operator/http/testing/statements.ts';
import { tamper } from '../../operator/http/testing/tamperings.ts';
import { seededRandom } from '../../operator/ledger/testing/seeded-random.ts';
import { useLedgers } from '../../operator/ledger/testing/use-ledgers.ts';

const ledgers = useLedgers();
const TAMPERINGS = 500;

test('500 of 500 statements that somebody tampered with are found to be wrong', async () => {
  const ledger = await ledgers.open(await ledgers.directory());
  await fillMonth(ledger, 60, 11);
  await using server = await statementServer(ledger);
  const lines = (await downloadStatement(server, 'acme')).trimEnd().split('\n');
  const foreign = (await downloadStatement(server, 'burst')).trimEnd().split('\n');
  const forgery = { lines, foreign, random: seededRandom(500) };
  const tampered = Array.from({ length: TAMPERINGS }, () => tamper(forgery));
  const texts = tampered.map(([, text]) => text);
  const checked = await verifyStatements(texts, await statementKeys(server));
  const missed = checked.flatMap(({ code, output }, index) =>
    code === 1 && output.startsWith('WRONG: ') ? [] : [`${tampered[index]?.[0]}: ${output}`],
  );
  expect(missed).toStrictEqual([]);
  expect(checked.length).toBe(TAMPERINGS);
});
