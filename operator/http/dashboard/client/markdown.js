import { html } from './preact.js';
import { link } from './location.js';

/** @typedef {import('preact').ComponentChildren} Children */
/** @typedef {{ id: string, level: number, text: string }} Heading */

/** The anchor of a heading, as code hosts make it. @param {string} text */
export function anchorOf(text) {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');
}

/** As much of Markdown as the documentation uses, as elements: never as markup. @param {{ text: string }} properties */
export function Markdown({ text }) {
  return html`${blocksOf(text).map(block)}`;
}

/** Lines that belong together: fenced code, or what stands between empty lines. @param {string} text */
function blocksOf(text) {
  /** @type {string[][]} */
  const blocks = [];
  let open = false;
  let fenced = false;
  for (const line of text.split('\n')) {
    const fence = line.trimStart().startsWith('```');
    if (!open && (line.trim() !== '' || fence)) blocks.push([]);
    if (line.trim() !== '' || fenced) blocks.at(-1)?.push(line);
    if (fence) fenced = !fenced;
    open = fenced || (line.trim() !== '' && !fence && !line.startsWith('#'));
  }
  return blocks;
}

/** @param {string[]} lines @returns {Children} */
function block(lines) {
  const [first = ''] = lines;
  const [, marks = '', title = ''] = /^(#{1,6})\s+(.*)$/.exec(first) ?? [];
  if (marks !== '') return heading(marks.length, title);
  if (first.trimStart().startsWith('```'))
    return html`<pre tabindex="0">${lines.slice(1, -1).join('\n')}</pre>`;
  if (first.startsWith('<!--')) return null;
  if (first.startsWith('|')) return table(lines);
  if (/^\s*(-|\d+\.)\s/.test(first)) return list(lines);
  return html`<p>${inline(lines.join(' '))}</p>`;
}

/** @param {number} level @param {string} title */
function heading(level, title) {
  const id = anchorOf(title.replaceAll('`', ''));
  return level <= 2
    ? html`<h2 id=${id} tabindex="-1">${inline(title)}</h2>`
    : html`<h3 id=${id} tabindex="-1">${inline(title)}</h3>`;
}

/** @param {string[]} lines */
function list(lines) {
  /** @type {string[]} */
  const items = [];
  for (const line of lines) {
    const [, text] = /^\s*(?:-|\d+\.)\s+(.*)$/.exec(line) ?? [];
    if (text === undefined) items.push(`${items.pop() ?? ''} ${line.trim()}`);
    else items.push(text);
  }
  const shown = items.map((item) => html`<li>${inline(item)}</li>`);
  return /^\s*\d/.test(lines[0] ?? '') ? html`<ol>${shown}</ol>` : html`<ul>${shown}</ul>`;
}

/** @param {string[]} lines */
function table(lines) {
  const [head = [], , ...rows] = lines.map((line) =>
    line
      .replaceAll(/^\||\|$/g, '')
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll('\\|', '|')),
  );
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${head.join(', ')}>
      <table>
        <thead><tr>${head.map((cell) => html`<th scope="col">${cell === '' ? '–' : inline(cell)}</th>`)}</tr></thead>
        <tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody>
      </table>
    </div>
  `;
}

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|<a id="[^"]*"><\/a>|\[([^\]]*)\]\(([^)]*)\)/g;

/** @param {string} text @returns {Children[]} */
function inline(text) {
  /** @type {Children[]} */
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, bold, slanted, label, target = ''] = match;
    parts.push(text.slice(at, match.index));
    if (code !== undefined) parts.push(html`<code>${code}</code>`);
    else if (bold !== undefined) parts.push(html`<strong>${inline(bold)}</strong>`);
    else if (slanted !== undefined) parts.push(html`<em>${inline(slanted)}</em>`);
    else if (label !== undefined) parts.push(reference(label, target));
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}

/** A link opens where it can: pages of the documentation here, sites in the browser. @param {string} label @param {string} target */
function reference(label, target) {
  if (/^https?:/.test(target))
    return html`<a href=${target} rel="noreferrer noopener" target="_blank">${inline(label)}</a>`;
  const [path = '', anchor] = target.split('#', 2);
  if (/^[a-z-]+\.md$/i.test(path) || path === '')
    return html`<a href=${link(['docs', path === '' ? currentPage() : path], { at: anchor })}>${inline(label)}</a>`;
  return inline(label);
}

/** The page that is read now. */
function currentPage() {
  return decodeURIComponent(/^#\/docs\/([^?]+)/.exec(location.hash)?.[1] ?? 'README.md');
}
