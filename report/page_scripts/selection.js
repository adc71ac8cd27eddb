// What is chosen: the open item of the worklist, and one of its spans where a person has picked one.

export const selection = {item: null, span: null};
