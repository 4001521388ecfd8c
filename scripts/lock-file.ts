import { readFileSync } from 'node:fs';

/** A package as package-lock.json pins it. */
export interface LockedPackage {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly hasInstallScript?: boolean;
  /** True for packages that only developers need; they are not shipped. */
  readonly dev?: boolean;
  readonly optional?: boolean;
}

/** All packages of the lock file, for every platform, in its order. */
export function lockedPackages(): readonly LockedPackage[] {
  const path = new URL('../package-lock.json', import.meta.url);
  const { packages } = JSON.parse(readFileSync(path, 'utf8')) as {
    packages: Readonly<Record<string, Omit<LockedPackage, 'name'>>>;
  };
  return Object.entries(packages)
    .filter(([place]) => place !== '')
    .map(([place, locked]) => ({ ...locked, name: nameAt(place) }));
}

function nameAt(place: string): string {
  const folder = 'node_modules/';
  return place.slice(place.lastIndexOf(folder) + folder.length);
}
