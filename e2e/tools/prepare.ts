import { findGoTool, GO_TOOL_NAMES, GO_TOOLS, isGoTool } from './go-tools.ts';

/** Makes sure that the programs which tests need are there, showing progress: those that are named, or those of `make test`. */
const named = process.argv.slice(2);
const unknown = named.find((name) => !isGoTool(name));
if (unknown !== undefined) {
  const known = Object.keys(GO_TOOLS).join(', ');
  throw new RangeError(`tools: no such program: "${unknown}"; name one of ${known}`);
}
for (const name of named.length === 0 ? GO_TOOL_NAMES : named.filter(isGoTool)) {
  await findGoTool(name, (line) => console.error(`[tools] ${line}`)).catch((error: unknown) => {
    console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  });
}
