import { writeFileSync } from 'node:fs';
import { lockedPackages } from './lock-file.ts';

export const LICENCES_PAGE = new URL('../docs/reference/licences.md', import.meta.url);

const HEAD = `<!-- generated from package-lock.json by \`npm run generate:docs\` -->

# Licences of dependencies

*For whoever must know what may be shipped with meterfeed.* Every package that \`npm ci --omit dev\` can
install, on any platform, as package-lock.json pins it. The image holds fewer: what the bundle uses of them,
and an SBOM of them all beside it ([security](../explanation/security.md#d-25)).

`;

/** Returns the current page. Throws for a package that states no licence. */
export function licencesPage(): string {
  const rows = lockedPackages()
    .filter(({ dev }) => dev !== true)
    .map(({ name, version, license }) => {
      if (license === undefined) throw new Error(`no licence: ${name}: "${version}": replace it`);
      return { name, version, license };
    });
  const lines = rows.map(({ name, version, license }) => `| ${name} | ${version} | ${license} |`);
  const table = ['| Package | Version | Licence |', '|---|---|---|', ...new Set(lines)];
  return `${HEAD}${sums(rows)}\n\n${table.join('\n')}\n`;
}

/** Number of packages for each licence, the most frequent first. */
function sums(rows: readonly { readonly license: string }[]): string {
  const byLicence = Map.groupBy(rows, ({ license }) => license);
  return [...byLicence]
    .map(([license, { length }]) => ({ license, length }))
    .toSorted((a, b) => b.length - a.length || (a.license < b.license ? -1 : 1))
    .map(({ license, length }) => `- ${license}: ${length}`)
    .join('\n');
}

if (import.meta.main) writeFileSync(LICENCES_PAGE, licencesPage());
