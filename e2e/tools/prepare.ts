import { findGoTool, GO_TOOL_NAMES } from './go-tools.ts';

/** Makes sure that the programs which tests need are there, showing progress. */
for (const name of GO_TOOL_NAMES) {
  await findGoTool(name, (line) => console.error(`[tools] ${line}`)).catch((error: unknown) => {
    console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  });
}
