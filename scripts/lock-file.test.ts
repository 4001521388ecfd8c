import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type LockedPackage, lockedPackages } from './lock-file.ts';

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  readonly allowScripts: Readonly<Record<string, boolean>>;
};

/**
 * Linter and formatter binaries for platforms that are missing at the registry of the lock file,
 * and so have no hash. None of them is shipped.
 */
const WITHOUT_HASH = /^@(biomejs\/cli|oxlint\/binding|oxlint-tsgolint\/)/;

test('a package is installed whose content nobody pinned', () => {
  const isPinned = ({ integrity }: LockedPackage) => integrity?.startsWith('sha512-') === true;
  const unpinned = lockedPackages().filter((locked) => !isPinned(locked));
  const excused = ({ name, dev, optional }: LockedPackage) =>
    WITHOUT_HASH.test(name) && dev === true && optional === true;
  expect(unpinned.filter((locked) => !excused(locked))).toStrictEqual([]);
});

test('a package runs a script when it is installed that nobody allowed', () => {
  const allowed = Object.keys(manifest.allowScripts).filter((name) => manifest.allowScripts[name]);
  const running = lockedPackages().filter(({ hasInstallScript }) => hasInstallScript === true);
  expect(new Set(running.map(({ name }) => name))).toStrictEqual(new Set(allowed));
});

test('two versions of an allowed package come in under one permission', () => {
  const allowed = lockedPackages().filter(({ name }) => name in manifest.allowScripts);
  expect(allowed).toHaveLength(Object.keys(manifest.allowScripts).length);
});
