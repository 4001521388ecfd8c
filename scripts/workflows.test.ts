import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

const ROOT = join(import.meta.dirname, '..');
const WORKFLOWS = join(ROOT, '.github/workflows');

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Workflow {
  readonly permissions?: unknown;
  readonly jobs: Readonly<
    Record<string, { readonly 'timeout-minutes'?: number; readonly steps: readonly Step[] }>
  >;
}

describe.each(readdirSync(WORKFLOWS))('workflow %s', (file) => {
  const text = readFileSync(join(WORKFLOWS, file), 'utf8');
  const workflow = parse(text) as Workflow;
  const jobs = Object.values(workflow.jobs);
  const steps = jobs.flatMap((job) => job.steps);

  test('runs an action that its owner can exchange', () => {
    const used = steps.flatMap(({ uses }) => uses ?? []);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((action) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40}$/.test(action))).toEqual([]);
    const named = [...text.matchAll(/uses: \S+ # v\d+\.\d+\.\d+$/gm)];
    expect(named).toHaveLength(used.length);
  });

  test('has rights that nobody named, or leaves its token in the work tree', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' });
    const checkouts = steps.filter(({ uses }) => uses?.startsWith('actions/checkout@'));
    expect(checkouts.map((step) => step.with?.['persist-credentials'])).toEqual(
      checkouts.map(() => false),
    );
  });

  test('hangs for hours', () => {
    for (const job of jobs) expect(job['timeout-minutes']).toBeLessThanOrEqual(60);
  });

  test('puts what strangers can write into a script', () => {
    for (const { run } of steps) expect(run ?? '').not.toContain('${{');
  });

  test('calls an npm script that is not there', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      readonly scripts: Readonly<Record<string, string>>;
    };
    const called = [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map(([, name]) => name);
    expect(called.filter((name) => name === undefined || !(name in scripts))).toEqual([]);
  });
});

test('a release publishes, signs or attests less than what `npm run release` writes', () => {
  const { jobs } = parse(readFileSync(join(WORKFLOWS, 'release.yml'), 'utf8')) as Workflow;
  const steps = jobs['release']?.steps ?? [];
  const published = steps.filter(({ run }) => run?.startsWith('gh release create'));
  expect(published.map(({ run }) => run?.split(' ').at(-1))).toEqual(['dist/release/*']);
  const signed = steps.filter(({ run }) => run?.startsWith('cosign sign-blob'));
  expect(signed.map(({ run }) => run?.split(' ').at(-1))).toEqual(['dist/release/SHA256SUMS']);
  const attested = steps.map((step) => step.with?.['subject-checksums']);
  expect(attested).toContain('dist/release/SHA256SUMS');
});
