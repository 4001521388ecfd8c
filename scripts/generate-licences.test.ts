import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { LICENCES_PAGE, licencesPage } from './generate-licences.ts';
import { lockedPackages } from './lock-file.ts';

/** Licences that allow shipping under Apache-2.0 with nothing but a notice. */
const PERMISSIVE = ['Apache-2.0', 'BSD-3-Clause', 'ISC', 'MIT', 'PSF-2.0', 'Unlicense'];

test('the page of licences is out of date; run npm run generate:docs', () => {
  expect(readFileSync(LICENCES_PAGE, 'utf8')).toBe(licencesPage());
});

test('a dependency comes in whose licence nobody has looked at', () => {
  const shipped = lockedPackages().filter(({ dev }) => dev !== true);
  const licences = new Set(shipped.map(({ license }) => license));
  expect(licences).toStrictEqual(new Set(PERMISSIVE));
});
