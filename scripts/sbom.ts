import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { lockedPackages } from './lock-file.ts';

const ROOT = join(import.meta.dirname, '..');

/** The used fields of npm's SBOM (https://cyclonedx.org/docs/1.5/json/). */
export interface Sbom {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: {
    readonly timestamp?: string;
    readonly component: { readonly name: string; readonly type: string; readonly version: string };
  };
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly purl: string;
    readonly hashes?: readonly { readonly alg: string }[];
    readonly licenses?: readonly unknown[];
    readonly 'bom-ref': string;
  }[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

/**
 * Returns the CycloneDX SBOM of meterfeed's dependencies from the lock file, without network
 * requests. It removes development packages itself: npm's `--omit dev` also drops packages that
 * both need (npm 11.19: `yaml`, `ajv` and 37 more). One lock file gives one text, so npm's time and
 * random number are removed. The name is meterfeed's instead of the folder's.
 */
export function sbom(): Sbom {
  const options = ['--sbom-format', 'cyclonedx', '--package-lock-only', '--offline'];
  const text = execFileSync('npm', ['sbom', ...options], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { serialNumber: _, ...document } = JSON.parse(text) as Sbom & { serialNumber?: string };
  const { timestamp: __, component, ...metadata } = document.metadata;
  const { name } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { name: string };
  const shipped = new Set(
    lockedPackages().flatMap((locked) =>
      locked.dev === true ? [] : `${locked.name}@${locked.version}`,
    ),
  );
  const refs = new Set([...shipped, `${name}@${component.version}`]);
  return {
    ...document,
    metadata: { ...metadata, component: { ...component, name, type: 'application' } },
    components: document.components.filter((one) => shipped.has(one['bom-ref'])),
    dependencies: document.dependencies
      .filter(({ ref }) => refs.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((on) => refs.has(on)) })),
  };
}

if (import.meta.main) {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { help: { type: 'boolean', short: 'h', default: false } },
  });
  const file = positionals[0] ?? join(ROOT, 'dist/sbom.cdx.json');
  if (values.help) {
    console.log(
      'npm run sbom -- [FILE]: writes the CycloneDX SBOM, by default to dist/sbom.cdx.json',
    );
    process.exit(0);
  }
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(sbom(), null, 2)}\n`);
  console.log(`SBOM written to ${file}`);
}
