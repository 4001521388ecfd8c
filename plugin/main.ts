import { run } from './run.ts';

/** Set by scripts/bundle-plugin.ts; undefined when run from the sources. */
declare const PLUGIN_VERSION: string | undefined;

// A reader of the first lines, such as `head`, closes the output early.
process.stdout.on('error', () => process.exit(0));

process.exitCode = await run(process.argv.slice(2), {
  environment: process.env,
  columns: process.stdout.columns,
  now: () => Date.now(),
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  version: typeof PLUGIN_VERSION === 'string' ? PLUGIN_VERSION : 'development',
});
