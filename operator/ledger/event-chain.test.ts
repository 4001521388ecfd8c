import { createHash } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { BatchTree, chainValue, FIRST_CHAIN } from './event-chain.ts';

/**
 * Made with `sha256sum` and `xxd` from the formula in docs/reference/ledger-format.md#the-chain.
 */
const A = '62416a2312bce9383efcdb675bfb04bf46097065ac27b1150b6c3bd90c86798d';
const B = 'cc3de5b76d7d984663ab9774df380dce717835e586ff6e807e2168f37711b97c';
const U = '7b168c95f1fd66cd05b6611608641c6b4f3aadb5cc9be46a7b4b6a460e07ea69';
const ROOT = '5690bee05dd8982a438dedce38ce77cf83bcc42f2d263db079be61f491dd318f';
const VALUE = 'b08190db10b811d2d80d335ec70b01b46ba0ea193aab794891d5b5a061fa59fa';
const NEXT_VALUE = '4acb83a160338a2d494d2af6b0fda6785381794cde1cc6d8e1d1ce78b6b7a23f';

interface Entry {
  readonly tenant: string;
  readonly text: string;
}

function treeOf(first: number, batch: readonly Entry[]): BatchTree {
  const tree = new BatchTree();
  for (const [index, { tenant, text }] of batch.entries()) tree.add(first + index, tenant, text);
  return tree;
}

const valueOf = (previous: string, first: number, batch: readonly Entry[]): string =>
  chainValue(previous, first, treeOf(first, batch).root());

const entryOf = (tenant: string, n?: number): Entry => ({
  tenant,
  text: JSON.stringify({ tenant, n }),
});

test('a stranger calculates leaves, root and value with sha256sum alone', () => {
  const tree = treeOf(7, [entryOf('b'), entryOf('a'), entryOf('ü'), entryOf('b')]);
  const leaves = tree.leaves().map(({ tenant, hash }) => [tenant, hash.toString('hex')]);
  expect(leaves).toEqual([
    ['a', A],
    ['b', B],
    ['ü', U],
  ]);
  expect(tree.root()).toBe(ROOT);
  expect(chainValue(FIRST_CHAIN, 7, ROOT)).toBe(VALUE);
});

test('the root of one tenant alone is its leaf', () => {
  expect(treeOf(8, [entryOf('a')]).root()).toBe(A);
  expect(chainValue(VALUE, 11, A)).toBe(NEXT_VALUE);
});

test('tenants are sorted by their UTF-8 bytes, not by code units', () => {
  const tree = treeOf(1, [entryOf('\u{1f600}'), entryOf('\uff5e')]);
  expect(tree.leaves().map(({ tenant }) => tenant)).toEqual(['\uff5e', '\u{1f600}']);
});

test('a batch without events has no value', () => {
  expect(() => new BatchTree().root()).toThrow('a batch without events has no root');
});

const entries = fc
  .record({ tenant: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'ü'), n: fc.nat(9) })
  .map(({ tenant, n }) => entryOf(tenant, n));
const batches = fc.array(entries, { minLength: 1, maxLength: 20 });
const firsts = fc.integer({ min: 1, max: 2 ** 48 });
const values = fc.constantFrom(FIRST_CHAIN, VALUE);

test('any other event, tenant, order, number, end or previous value makes another value', () => {
  const changed = fc.record({ batch: batches, first: firsts, previous: values });
  fc.assert(
    fc.property(changed, changed, fc.nat(), fc.nat(), ({ batch, first, previous }, other, i, j) => {
      const value = valueOf(previous, first, batch);
      const same = (changedBatch: readonly Entry[]): boolean =>
        JSON.stringify(changedBatch) === JSON.stringify(batch);
      const at = i % batch.length;
      const to = j % batch.length;
      const entry = batch[at] ?? entryOf('a');
      const replaced = batch.with(at, other.batch[0] ?? entry);
      const swapped = batch.with(at, batch[to] ?? entry).with(to, entry);
      const moved = batch.with(at, { ...entry, tenant: 'f', text: entryOf('f').text });
      for (const candidate of [replaced, swapped, moved, batch.slice(1), [...batch, entry]]) {
        if (same(candidate) || candidate.length === 0) continue;
        expect(valueOf(previous, first, candidate)).not.toBe(value);
      }
      expect(valueOf(previous, first + 1, batch)).not.toBe(value);
      expect(valueOf(value, first, batch)).not.toBe(value);
      expect(treeOf(first + 1, batch).root()).not.toBe(treeOf(first, batch).root());
    }),
  );
});

interface Step {
  readonly side: 'left' | 'right';
  readonly hash: Buffer;
}

const sha256 = (...parts: readonly (Buffer | string)[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** The neighbours on the path from a leaf to the root, as an operator would publish them. */
function pathOf(leaves: readonly Buffer[], index: number): readonly Step[] {
  if (leaves.length <= 1) return [];
  const beside = index % 2 === 0 ? index + 1 : index - 1;
  const neighbour = leaves[beside];
  const above: Buffer[] = [];
  for (let left = 0; left < leaves.length; left += 2) {
    const pair = leaves.slice(left, left + 2);
    above.push(pair.length === 2 ? sha256('\u0001', ...pair) : (pair[0] ?? Buffer.of()));
  }
  const rest = pathOf(above, Math.floor(index / 2));
  if (neighbour === undefined) return rest;
  return [{ side: beside > index ? 'right' : 'left', hash: neighbour }, ...rest];
}

/** Verifies one tenant's events with the path, without knowledge of other tenants. */
function rootFrom(lines: readonly string[], path: readonly Step[]): string {
  let hash = sha256('\0', lines.join(''));
  for (const step of path) {
    hash =
      step.side === 'left' ? sha256('\u0001', step.hash, hash) : sha256('\u0001', hash, step.hash);
  }
  return hash.toString('hex');
}

test('the events of one tenant are proven without the others, and no other events are', () => {
  fc.assert(
    fc.property(batches, firsts, fc.nat(), fc.nat(9), (batch, first, pick, n) => {
      const tree = treeOf(first, batch);
      const leaves = tree.leaves();
      const index = pick % leaves.length;
      const tenant = leaves[index]?.tenant ?? '';
      const lines = batch.flatMap((entry, at) =>
        entry.tenant === tenant ? [`${first + at} ${entry.text}\n`] : [],
      );
      const hashes = leaves.map(({ hash }) => hash);
      const path = pathOf(hashes, index);
      expect(rootFrom(lines, path)).toBe(tree.root());
      expect(path.length).toBeLessThanOrEqual(Math.ceil(Math.log2(leaves.length)));

      expect(rootFrom(lines.slice(1), path)).not.toBe(tree.root());
      expect(rootFrom([...lines, `${first + 100} x\n`], path)).not.toBe(tree.root());
      const another = `${first} ${entryOf('z', n).text}\n`;
      expect(rootFrom(lines.with(0, another), path)).not.toBe(tree.root());
      for (const wrong of leaves.keys()) {
        if (wrong === index) continue;
        expect(rootFrom(lines, pathOf(hashes, wrong))).not.toBe(tree.root());
      }
    }),
  );
});

test('an inner node does not pass for the leaf of a tenant', () => {
  const tree = treeOf(1, [entryOf('a'), entryOf('b'), entryOf('c')]);
  const [a, b, c] = tree.leaves().map(({ hash }) => hash);
  const forged = sha256('\0', a ?? '', b ?? '');
  expect(sha256('\u0001', forged, c ?? '').toString('hex')).not.toBe(tree.root());
});
